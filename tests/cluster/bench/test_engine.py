"""`plb bench engine`: the printed table and the written figures."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cluster.bench.engine import bench_engine
from cluster.cli.app import app


@pytest.mark.slow
def test_bench_prints_a_table_and_writes_its_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The table has a column for the given size. Speeds are above 0, and shares are within their bounds."""
    monkeypatch.setattr("cluster.bench.engine.QUALITY_SECONDS", (0.01, 0.02))
    monkeypatch.setattr("cluster.bench.engine.bench_engine", partial(bench_engine, proposals=4000))
    path = tmp_path / "figures.json"
    run = CliRunner().invoke(app, ["bench", "engine", "--quick", "--nodes", "12", "--json", str(path)])
    assert run.exit_code == 0, run.output
    assert "12 nodes" in run.output
    assert "energy won after 0.01 s" in run.output
    (size,) = json.loads(path.read_text())["sizes"]
    assert size["nodes"] == 12
    assert min(size["full"], size["arithmetic"], size["early_five"], size["early_half"]) > 0
    assert 0 <= size["reached_monte_carlo_five"] <= 1
