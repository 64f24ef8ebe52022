"""`plb provision`: a plan and figures from the files of an instance."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from plb.provisioning import ProvisioningPlan, algorithm_names, lower_bound, provision
from tests import command_line
from tests.cluster.small_provisioning import write_base, write_curves
from workloads.provisioning import read_instance, read_plan
from workloads.provisioning.plans import parse_nodes

KEYS = ["algorithm", "nodes", "lower_bound", "deviation_percent", "seconds", "valid"]
"""The stable keys."""


plb = partial(command_line.plb, "provision")


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """Return a file of constant demand."""
    return write_base(tmp_path / "base.csv")


def test_list_names_the_algorithms_without_an_instance() -> None:
    result = plb("--list")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == ["auto", *algorithm_names()]


def test_a_plan_is_printed_written_and_read_back(base: Path, tmp_path: Path) -> None:
    out, figures = tmp_path / "plan.csv", tmp_path / "figures.json"
    result = plb(base, "--algorithm", "SpreadWFD-Avg-BinSearch", "--out", out, "--json", figures)
    assert result.exit_code == 0, result.output
    found = json.loads(figures.read_text())
    instance = read_instance(base)
    plan = read_plan(out, instance)
    assert list(found) == [*KEYS, "stamp"]
    assert found["algorithm"] == "SpreadWFD-Avg-BinSearch"
    assert found["valid"] is plan.valid is True
    assert found["nodes"] == plan.nodes == provision(instance, "SpreadWFD-Avg-BinSearch").nodes
    assert found["lower_bound"] == lower_bound(instance)
    assert found["deviation_percent"] == pytest.approx(100.0 * (plan.nodes / found["lower_bound"] - 1.0))
    printed = re.sub(r"[\s│]+", " ", result.stdout)
    for words in (f"nodes {plan.nodes} ", f"lower bound {found['lower_bound']} ", "valid yes", f"Plan: {out}"):
        assert words in printed


@pytest.mark.parametrize("name", ["plan.parquet", "plan.csv.gz"])
def test_the_file_name_selects_the_format_of_a_plan(base: Path, tmp_path: Path, name: str) -> None:
    assert plb(base, "--algorithm", "FF", "--out", tmp_path / name).exit_code == 0
    plan, same = read_plan(tmp_path / name, read_instance(base)), provision(read_instance(base), "FF")
    assert plan.valid
    assert np.array_equal(np.bincount(plan.node, plan.count), np.bincount(same.node, same.count))


def test_auto_is_the_default_and_needs_no_more_nodes_than_first_fit(base: Path, tmp_path: Path) -> None:
    result = plb(base, "--time-limit", "0.3", "--json", tmp_path / "figures.json", "--quiet")
    assert (result.exit_code, result.output) == (0, "")
    assert json.loads((tmp_path / "figures.json").read_text())["nodes"] <= provision(read_instance(base), "FF").nodes


def test_a_directory_is_read_as_an_instance_of_the_contest(tmp_path: Path) -> None:
    curves = write_curves(tmp_path / "curves")
    result = plb(curves, "--algorithm", "FF", "--out", tmp_path / "plan.csv")
    assert result.exit_code == 0, result.output
    assert "time points 98" in re.sub(r"[\s│]+", " ", result.stdout)
    assert set(pl.read_csv(tmp_path / "plan.csv")["node_type"]) == {"64x128"}
    assert plb(curves, "--algorithm", "FF", "--node", "big=128,256", "--out", tmp_path / "big.csv").exit_code == 0
    assert set(pl.read_csv(tmp_path / "big.csv")["node_type"]) == {"big"}


def test_node_types_are_used_in_order_and_counted(base: Path, tmp_path: Path) -> None:
    nodes = "--node", "large=128,256x2", "--node", "small=64,128"
    result = plb(base, "--algorithm", "FF", *nodes, "--out", tmp_path / "plan.csv", "--json", tmp_path / "f.json")
    assert result.exit_code == 0, result.output
    plan = read_plan(tmp_path / "plan.csv", read_instance(base, parse_nodes([nodes[1], nodes[3]])))
    assert plan.valid
    assert int((plan.kind == 0).sum()) == 2
    printed = re.sub(r"[\s│]+", " ", result.stdout)
    assert f"large 2 small {plan.nodes - 2} lower bound" in printed


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["BASE", "--algorithm", "FirstFit"], "unknown algorithm 'FirstFit'"),
        (["BASE", "--rules", "mine"], "rules = 'mine'"),
        (["BASE", "--rules", "released"], "rules = 'released' needs the name of an algorithm"),
        (["BASE", "--node", "64;128"], "kind 0 = '64;128' is not allowed; expected capacities such as 64,128"),
        (["BASE", "--node", "64"], "node type node: 1 capacities, expected 2"),
        (["BASE", "--node", "2e9,128"], "kind 0 = '2e9,128' is not allowed"),
        (["BASE", "--node", "2000000000,128"], "capacity[core] = 2000000000.0 is not allowed"),
        (["BASE", "--node", "1,1"], "expected at most what a node has"),
        (["BASE", "--algorithm", "FF", "--node", "64,128x1"], "1 node"),
        (["BASE", "--time-limit", "-1"], "--time-limit"),
        (["BASE", "--out", "FOLDER"], "is a directory; give the name of a file"),
        (["BASE", "--json", "FOLDER"], "is a directory; give the name of a file"),
        (["nowhere.csv"], "nowhere.csv: found no such file"),
        (["FOLDER"], "app_resources"),
        ([], "Missing argument 'instance'"),
    ],
)
def test_bad_input_is_refused_with_a_message(base: Path, tmp_path: Path, arguments: list[str], words: str) -> None:
    places = {"BASE": str(base), "FOLDER": str(tmp_path / "folder")}
    (tmp_path / "folder").mkdir()
    out = [] if "--out" in arguments else ["--out", str(tmp_path / "plan.csv")]
    result = plb(*(places.get(word, word) for word in arguments), *(out if arguments else []))
    assert result.exit_code == 2, result.output
    assert words in re.sub(r"[\s│]+", " ", result.stderr)
    assert not (tmp_path / "plan.csv").exists()


def test_an_unwritable_file_is_refused_before_planning(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planning may take hours, and the plan would be lost."""
    monkeypatch.setattr("plb.provisioning.replanning", lambda *_, **__: pytest.fail("a plan was sought"))
    result = plb(base, "--out", tmp_path / "plan.csv.zst")
    assert result.exit_code == 2, result.output
    assert "file plan.csv.zst: ending = '.zst' is not allowed" in re.sub(r"\s+", " ", result.stderr)


def test_input_files_are_not_overwritten(base: Path, tmp_path: Path) -> None:
    curves = write_curves(tmp_path / "curves")
    for instance, path in ((base, base), (curves, next(iter(curves.iterdir())))):
        for option in ("--out", "--json"):
            before = path.read_bytes()
            result = plb(instance, "--algorithm", "FF", option, path)
            assert result.exit_code == 2
            assert "read; give another file to write to" in re.sub(r"\s+", " ", result.stderr)
            assert path.read_bytes() == before


def test_a_plan_with_faults_ends_with_exit_code_1(base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ProvisioningPlan, "faults", lambda _: ("node 0: too much",))
    result = plb(base, "--algorithm", "FF", "--json", tmp_path / "figures.json")
    assert result.exit_code == 1
    assert "plb: node 0: too much" in result.stderr
    assert json.loads((tmp_path / "figures.json").read_text())["valid"] is False
