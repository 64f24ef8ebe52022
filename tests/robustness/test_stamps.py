"""All written figures contain seed, configuration and versions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import plb
from tests.robustness.commands import BY_NAME
from workloads.trace_files import check_traces


def stamp_of(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())["stamp"]
    assert {"plb", "python", "numpy", "polars"} <= set(found["versions"])
    return found


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("provision", ("--seed", 1)),
        ("replan", ("--moves", 3)),
        ("predict", ("--step", 600)),
        ("traces convert", ("--aggregate", "max")),
        ("traces generate", ("--seed", 1)),
    ],
)
def test_figures_are_stamped(inputs: Path, tmp_path: Path, name: str, other: tuple[str, Any]):
    stamps = []
    for place, further in (("a", ()), ("b", ()), ("c", other)):
        figures = tmp_path / f"{place}.json"
        run = BY_NAME[name].run(inputs, tmp_path / place, "--json", figures, *further)
        assert run.exit_code == 0, run.output
        stamps.append(stamp_of(figures))
    assert stamps[0] == stamps[1]
    assert len(stamps[0]["configuration_sha256"]) == 64
    assert stamps[0]["configuration_sha256"] != stamps[2]["configuration_sha256"]


def test_traces_are_stamped(inputs: Path, tmp_path: Path):
    for name in ("traces convert", "traces generate"):
        assert BY_NAME[name].run(inputs, tmp_path / name).exit_code == 0
        assert "plb" in check_traces(tmp_path / name)[0].provenance["versions"]


def test_figures_without_settings_are_stamped_with_versions(inputs: Path, tmp_path: Path):
    """Examples are descriptions of traces, and comparisons of regions with published statistics."""
    plb("traces", "describe", inputs / "planetlab", "--format", "planetlab", "--json", tmp_path / "a.json")
    assert stamp_of(tmp_path / "a.json")["seed"] is None
    plb("traces", "check", "region1", "--tenants", 100, "--seed", 2, "--json", tmp_path / "b.json")
    assert stamp_of(tmp_path / "b.json")["seed"] == 2
