"""Plans as tables: reading and writing."""

from __future__ import annotations

import tempfile
from pathlib import Path

import attrs
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plb.provisioning import Affinity, Instance, NodeType, ProvisioningPlan, lower_bound, moves_between
from tests.workloads.provisioning.instances import instances, places_of, problems_of
from workloads.provisioning import read_plan, write_moves, write_plan

ENDINGS = ("csv", "csv.gz", "csv.xz", "parquet")
HEADER = "node,node_type,application,replicas"
ROWS = ("n1,big,a,1", "n2,small,a,1", "n1,big,b,2")


def small(replicas: tuple[int, int] = (2, 2), count: int | None = 1) -> Instance:
    """Return two applications and two node types; b allows one replica of a on its node."""
    return Instance(
        name="small",
        resources=("cpu",),
        applications=("a", "b"),
        replicas=np.array(replicas, np.int32),
        demand=np.array([[[4, 2]], [[2, 3]]], np.int32),
        affinity=Affinity.from_columns([1], [0], [1], 2),
        nodes=(NodeType("big", np.array([8], np.int32), count), NodeType("small", np.array([4], np.int32))),
        units=(1.0,),
    )


def write(path: Path, rows: tuple[str, ...] = ROWS, header: str = HEADER) -> Path:
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


@st.composite
def plans(draw: st.DrawFn) -> ProvisioningPlan:
    """Draw a plan, usually invalid: pairs of nodes and applications, each node with at least one."""
    instance = draw(instances())
    nodes = draw(st.integers(1, 5))
    every = [(node, draw(st.integers(0, len(instance.applications) - 1))) for node in range(nodes)]
    more = draw(st.lists(st.tuples(st.integers(0, nodes - 1), st.integers(0, len(instance.applications) - 1))))
    node, application = np.array(draw(st.permutations(sorted({*every, *more}))), np.int32).T
    return ProvisioningPlan(
        instance=instance,
        kind=np.array(draw(st.lists(st.integers(0, 1), min_size=nodes, max_size=nodes)), np.int32),
        application=application,
        node=node,
        count=np.array(draw(st.lists(st.integers(1, 9), min_size=len(node), max_size=len(node))), np.int32),
        algorithm="drawn",
        seconds=1.0,
        lower_bound=lower_bound(instance),
    )


def rows_of(plan: ProvisioningPlan) -> list[tuple[int, int, int]]:
    return sorted(zip(plan.node.tolist(), plan.application.tolist(), plan.count.tolist(), strict=True))


@settings(max_examples=40, deadline=None)
@given(plans(), st.sampled_from(ENDINGS))
def test_written_plans_are_read_back(plan: ProvisioningPlan, ending: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"plan.{ending}"
        write_plan(path, plan)
        again = read_plan(path, plan.instance)
    assert again.kind.tolist() == plan.kind.tolist()
    assert again.node_names() == plan.node_names()
    assert rows_of(again) == rows_of(plan)
    assert again.lower_bound == plan.lower_bound
    assert sorted(again.faults()) == sorted(plan.faults())


def test_the_columns_are_names_and_numbers(tmp_path: Path) -> None:
    plan = read_plan(write(tmp_path / "plan.csv"), small())
    assert (plan.nodes, plan.algorithm, plan.valid) == (2, "file", True)
    write_plan(tmp_path / "again.csv", plan)
    again = (tmp_path / "again.csv").read_text().splitlines()
    assert again == [HEADER, "n1,big,a,1", "n1,big,b,2", "n2,small,a,1"]
    write_plan(tmp_path / "again.parquet", plan)
    assert pl.read_parquet(tmp_path / "again.parquet").rows()[0] == ("n1", "big", "a", 1)


def test_a_plan_for_another_instance_loses_unknown_applications(tmp_path: Path) -> None:
    """Nodes that contained only these are omitted, too. If the plan must match the instance, they are errors."""
    path = write(tmp_path / "plan.csv", (*ROWS, "n3,small,gone,2", "n1,big,gone,1"))
    assert places_of(read_plan, path, small()) == [("plan.csv", 5, "application"), ("plan.csv", 6, "application")]
    plan = read_plan(path, small(), of_another=True)
    assert rows_of(plan) == rows_of(read_plan(write(tmp_path / "less.csv"), small()))
    assert plan.node_names() == ("n1", "n2")


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_moves_are_a_table_by_application(tmp_path: Path, ending: str) -> None:
    instance = small((2, 1))
    before = read_plan(write(tmp_path / "before.csv", ("n1,big,b,2", "n2,small,a,1")), instance)
    after = read_plan(write(tmp_path / "after.csv", ("n3,small,a,1", "n1,big,a,1", "n1,big,b,1")), instance)
    path = tmp_path / f"moves.{ending}"
    write_moves(path, instance, moves_between(before, after))
    read = pl.read_csv if ending == "csv" else pl.read_parquet
    assert read(path).columns == ["application", "source", "target", "replicas"]
    assert read(path).rows() == [("a", None, "n3", 1), ("a", "n2", "n1", 1), ("b", "n1", None, 1)]


@pytest.mark.parametrize(
    ("row", "column"),
    [
        ("n1,small,b,2", "node_type"),
        ("n3,tiny,b,2", "node_type"),
        ("n3,,b,2", "node_type"),
        (",big,b,2", "node"),
        ("n3,big,c,2", "application"),
        ("n3,big,,2", "application"),
        ("n1,big,a,1", "application"),
        ("n3,big,b,0", "replicas"),
        ("n3,big,b,-1", "replicas"),
        ("n3,big,b,1.5", "replicas"),
        ("n3,big,b,two", "replicas"),
        ("n3,big,b,", "replicas"),
        ("n3,big,b", "replicas"),
        ("n3,big,b,1,1", None),
    ],
)
def test_a_malformed_field_is_named(tmp_path: Path, row: str, column: str | None) -> None:
    path = write(tmp_path / "plan.csv", (*ROWS[:2], row))
    assert places_of(read_plan, path, small()) == [("plan.csv", 4, column)]


def test_rows_of_parquet_files_are_numbered_from_1(tmp_path: Path) -> None:
    frame = pl.read_csv(write(tmp_path / "plan.csv"))
    path = tmp_path / "plan.parquet"
    frame.with_columns(replicas=pl.Series([1, 0, 2])).write_parquet(path)
    assert places_of(read_plan, path, small()) == [("plan.parquet", 2, "replicas")]
    frame.with_columns(replicas=pl.lit("1")).write_parquet(path)
    assert places_of(read_plan, path, small()) == [("plan.parquet", None, "replicas")]
    path.write_bytes(b"nothing")
    assert "damaged" in problems_of(read_plan, path, small())[0].found


def test_files_that_are_no_plan_are_refused(tmp_path: Path) -> None:
    assert "no such file" in problems_of(read_plan, tmp_path / "none.csv", small())[0].found
    assert "columns" in problems_of(read_plan, write(tmp_path / "x.csv", ROWS, "a,b,c,d"), small())[0].found
    assert "no rows" in problems_of(read_plan, write(tmp_path / "x.csv", ()), small())[0].found


def test_names_may_contain_commas(tmp_path: Path) -> None:
    instance = attrs.evolve(small(), applications=("a,b", 'c"d'))
    plan = attrs.evolve(read_plan(write(tmp_path / "x.csv"), small()), instance=instance)
    write_plan(tmp_path / "y.csv", plan)
    assert rows_of(read_plan(tmp_path / "y.csv", instance)) == rows_of(plan)
