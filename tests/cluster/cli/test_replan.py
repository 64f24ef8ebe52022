"""`plb replan`: a plan with few moves from an existing plan."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path

import attrs
import numpy as np
import polars as pl
import pytest

from plb.provisioning import moves_between, provision
from tests import command_line
from tests.cluster.small_provisioning import base, write_base, write_curves
from workloads.provisioning import read_instance, read_plan, write_authors, write_plan

plb = partial(command_line.plb, "replan")


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
    result = plb(instance, plan, "--out", out, "--moves-out", moves, "--json", figures)
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
    small, changed = base(), tmp_path / "changed.csv"
    names = ("new", *small.applications[1:])
    replicas = small.replicas + np.where(np.arange(len(names)) == 3, 2, 0)
    write_authors(changed, attrs.evolve(small, applications=names, replicas=replicas))
    out, moves = tmp_path / "new.csv", tmp_path / "moves.csv"
    result = plb(changed, plan, "--out", out, "--moves-out", moves)
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
    result = plb(instance, tmp_path / "alone.csv", "--moves", moves, "--json", figures, "--quiet")
    assert (result.exit_code, result.stdout) == (0, ""), result.output
    found = json.loads(figures.read_text())
    if moves == "4":
        assert (found["moved"], found["nodes"]) == (4, len(rows) - 4)
    else:
        assert found["nodes"] == provision(problem).nodes


def test_the_contest_gives_the_present_nodes_of_instances(tmp_path: Path) -> None:
    curves, figures = write_curves(tmp_path / "contest"), tmp_path / "figures.json"
    result = plb(curves, curves, "--json", figures)
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
        result = plb(*arguments, "--json", tmp_path / "figures.json")
        assert result.exit_code == 2
        assert words in result.stderr
    assert not (tmp_path / "figures.json").exists()
    assert not (tmp_path / "x.csv").exists()
