"""`plb provision`: a plan and figures from the files of an instance; `plb replan`: one with few moves from a plan."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path

import attrs
import numpy as np
import polars as pl
import pytest

from plb.provisioning import ProvisioningPlan, algorithm_names, lower_bound, moves_between, provision
from tests import command_line
from tests.cluster import small_provisioning
from tests.cluster.small_provisioning import write_base, write_curves
from tests.workloads.provisioning.instance_files import write_authors
from workloads.provisioning import read_instance, read_plan, write_plan
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


replan = partial(command_line.plb, "replan")


@pytest.fixture
def instance(tmp_path: Path) -> Path:
    """Return a file of constant demand."""
    return write_base(tmp_path / "base.csv")


@pytest.fixture
def plan(instance: Path, tmp_path: Path) -> Path:
    """Return a file with First Fit's plan for it."""
    path = tmp_path / "plan.csv"
    write_plan(path, provision(read_instance(instance), "FF"))
    return path


def test_a_valid_plan_does_not_change(instance: Path, plan: Path, tmp_path: Path) -> None:
    out, moves, figures = (tmp_path / name for name in ("new.csv", "moves.csv", "figures.json"))
    result = replan(instance, plan, "--out", out, "--moves-out", moves, "--json", figures)
    assert result.exit_code == 0, result.output
    assert out.read_text() == plan.read_text()
    assert moves.read_text() == "application,source,target,replicas\n"
    found = json.loads(figures.read_text())
    assert (found["algorithm"], found["moved"], found["placed"], found["removed"]) == ("Replanned", 0, 0, 0)
    assert found["valid"] is True
    printed = re.sub(r"[\s│]+", " ", result.stdout)
    for words in ("replicas that move 0 ", "valid yes", f"Plan: {out}", f"Moves: {moves}"):
        assert words in printed


def test_applications_come_go_and_grow(plan: Path, tmp_path: Path) -> None:
    small, changed = small_provisioning.base(), tmp_path / "changed.csv"
    names = ("new", *small.applications[1:])
    replicas = small.replicas + np.where(np.arange(len(names)) == 3, 2, 0)
    write_authors(changed, attrs.evolve(small, applications=names, replicas=replicas))
    out, moves = tmp_path / "new.csv", tmp_path / "moves.csv"
    result = replan(changed, plan, "--out", out, "--moves-out", moves)
    assert result.exit_code == 0, result.output
    problem = read_instance(changed)
    after, before = read_plan(out, problem), read_plan(plan, problem, of_another=True)
    assert after.faults() == ()
    changes = moves_between(before, after)
    assert (changes.moved, changes.removed) == (0, 0)
    assert changes.placed == small.replicas[0] + 2
    table = pl.read_csv(moves)
    assert set(table["application"]) == {"new", small.applications[3]}
    assert table["source"].null_count() == len(table)


@pytest.mark.parametrize("moves", ["4", "any"])
def test_moves_reduce_the_number_of_nodes(instance: Path, tmp_path: Path, moves: str) -> None:
    """At first, each replica has a node of its own."""
    problem = read_instance(instance)
    rows = np.repeat(np.arange(len(problem.replicas), dtype=np.int32), problem.replicas)
    node = np.arange(len(rows), dtype=np.int32)
    columns = {"kind": np.zeros_like(rows), "application": rows, "node": node, "count": np.ones_like(rows)}
    alone = attrs.evolve(provision(problem, "FF"), **columns)
    write_plan(tmp_path / "alone.csv", alone)
    figures = tmp_path / "figures.json"
    result = replan(instance, tmp_path / "alone.csv", "--moves", moves, "--json", figures, "--quiet")
    assert (result.exit_code, result.stdout) == (0, ""), result.output
    found = json.loads(figures.read_text())
    if moves == "4":
        assert (found["moved"], found["nodes"]) == (4, len(rows) - 4)
    else:
        assert found["nodes"] == provision(problem).nodes


def test_the_contest_gives_the_present_nodes_of_instances(tmp_path: Path) -> None:
    curves, figures = write_curves(tmp_path / "contest"), tmp_path / "figures.json"
    result = replan(curves, curves, "--json", figures)
    assert result.exit_code == 0, result.output
    found = json.loads(figures.read_text())
    assert found["placed"] == read_instance(curves).replicas.sum()  # in the file, no instance has a node yet


def test_wrong_input_is_named(instance: Path, plan: Path, tmp_path: Path) -> None:
    for arguments, words in (
        ((instance, plan, "--moves", "few"), "--moves = 'few' is not allowed; expected a whole number, or any"),
        ((instance, tmp_path / "none.csv"), "no such file"),
        ((instance, plan, "--moves", "9" * 5000), "expected a whole number, or any"),
        ((instance, plan, "--out", plan), "is read; give another file"),
        ((instance, plan, "--out", tmp_path / "x.csv", "--moves-out", tmp_path / "x.csv"), "is given twice"),
        ((instance, plan, "--out", tmp_path / "x.csv", "--moves-out", tmp_path / "x.csv.zst"), "ending = '.zst'"),
        ((instance, plan, "--node", "big=64,128"), "node_type"),
    ):
        result = replan(*arguments, "--json", tmp_path / "figures.json")
        assert result.exit_code == 2
        assert words in result.stderr
    assert not (tmp_path / "figures.json").exists()
    assert not (tmp_path / "x.csv").exists()


def test_a_plan_can_go_to_standard_output(base: Path, tmp_path: Path) -> None:
    run = plb(base, "--algorithm", "FF", "--out", "-")
    assert run.exit_code == 0
    plb(base, "--algorithm", "FF", "--out", tmp_path / "plan.csv")
    assert run.stdout == (tmp_path / "plan.csv").read_text()
    assert "Plan: -" in run.stderr
