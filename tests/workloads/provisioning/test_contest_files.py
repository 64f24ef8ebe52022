"""The files of the contest: reading and writing of instances."""

from __future__ import annotations

import lzma
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

from plb.errors import InvalidValueError
from plb.provisioning import Instance
from tests.workloads.provisioning.instance_files import write_authors, write_contest
from tests.workloads.provisioning.instances import assert_same, instances, limits_of, places_of, problems_of
from workloads.provisioning import (
    NodeSpec,
    read_authors,
    read_contest,
    read_contest_placement,
    read_instance,
)

POINTS = 98
APPS, INSTANCES, MACHINES, LIMITS = FILES = tuple(
    f"{name}.csv" for name in ("app_resources", "instance_deploy", "machine_resources", "app_interference")
)
TABLES = {
    APPS: [
        ["app_1", "|".join(["0.5"] * 97 + ["1.25"]), "|".join(["8"] * 98), 60, 1, 0, 1],
        ["app_2", "|".join(["2"] * 98), "|".join(["0.000001"] * 98), 40, 0, 2, 0],
        ["app_3", "|".join(["1"] * 98), "|".join(["1"] * 98), 40, 0, 0, 0],
    ],
    INSTANCES: [
        ["inst_1", "app_3", "machine_2"],
        ["inst_2", "app_1", "machine_2"],
        ["inst_3", "app_3", "machine_2"],
        ["inst_4", "app_3", "machine_3"],
        ["inst_5", "app_1", ""],
    ],
    MACHINES: [
        ["machine_1", 32, 64, 1440, 7, 3, 7],
        ["machine_2", 32, 64, 1440, 7, 3, 7],
        ["machine_3", 92, 288, 2457, 7, 7, 9],
    ],
    LIMITS: [["app_1", "app_3", 2], ["app_3", "app_3", 1], ["app_2", "app_1", 0], ["app_1", "app_1", 0]],
}


def write(folder: Path, **cells: tuple[int, int, object]) -> Path:
    """Write the files. A keyword names a table without its ending and changes one cell: row, place and value."""
    for name, table in TABLES.items():
        rows = [list(row) for row in table]
        if change := cells.get(name.removesuffix(".csv")):
            row, place, value = change
            rows[row - 1][place] = value  # type: ignore[call-overload]
        (folder / name).write_text("".join(",".join(map(str, row)) + "\n" for row in rows))
    return folder


def test_the_files_give_an_instance(tmp_path: Path) -> None:
    """Demand has 98 points, larger machines are first, and a limit of k allows k + 1 replicas.

    app_2 has no instances.
    """
    instance = read_contest(write(tmp_path))
    assert instance.applications == ("app_1", "app_3")
    assert instance.replicas.tolist() == [2, 3]
    assert (instance.resources, instance.time_points) == (("cpu", "memory"), POINTS)
    demand = instance.demand * np.array(instance.units)[:, None]
    assert demand[0, :, [0, 97]].tolist() == [[0.5, 8.0], [1.25, 8.0]]
    assert [(node.name, node.count) for node in instance.nodes] == [("92x288", 1), ("32x64", 2)]
    assert (instance.nodes[1].capacity * np.array(instance.units)).tolist() == [32.0, 64.0]
    assert limits_of(instance.affinity, instance.applications) == [
        ("app_1", "app_1", 1),
        ("app_1", "app_3", 2),
        ("app_3", "app_3", 2),
    ]


def test_resources_nodes_and_self_limits_are_options(tmp_path: Path) -> None:
    """Constant resources are equal at all points. Nodes, and limits of applications for themselves, can be changed."""
    names = ("disk", "cpu", "M")
    instance = read_contest(
        write(tmp_path), resources=names, nodes=[NodeSpec("n", (99.0, 9.0, 2.0))], self_limits=False
    )
    assert instance.resources == names
    assert instance.demand[:, 0].tolist() == [[60] * POINTS, [40] * POINTS]
    assert [(node.name, node.count) for node in instance.nodes] == [("n", None)]
    assert limits_of(instance.affinity, instance.applications) == [("app_1", "app_3", 2)]
    for wrong in ((), ("cpu", "cpu"), ("gpu",)):
        with pytest.raises(InvalidValueError, match="different names of cpu, memory, disk, P, M, PM"):
            read_contest(tmp_path, resources=wrong)


def test_read_instance_distinguishes_both_formats(tmp_path: Path) -> None:
    contest = read_instance(write(tmp_path))
    assert_same(contest, read_contest(tmp_path))
    path = tmp_path / "authors.csv"
    write_authors(path, contest)
    assert_same(read_instance(path), read_authors(path))
    nodes = [NodeSpec("other", (80.0, 80.0), 5)]
    for source in (tmp_path, path):
        assert [(node.name, node.count) for node in read_instance(source, nodes).nodes] == [("other", 5)]
    assert "no such file" in problems_of(read_instance, tmp_path / "none")[0].found


def test_the_first_placement_is_counted_by_machine_and_application(tmp_path: Path) -> None:
    """An instance without a machine has no row. The node type of a machine follows from its capacity."""
    instance = read_contest(write(tmp_path))
    placement = read_contest_placement(tmp_path, instance)
    assert placement.node_names() == ("machine_2", "machine_3")
    assert placement.kind.tolist() == [1, 0]
    rows = zip(placement.node, placement.application, placement.count, strict=True)
    assert [tuple(map(int, row)) for row in rows] == [(0, 0, 1), (0, 1, 2), (1, 1, 1)]
    assert placement.count.sum() == 4


def test_a_placement_needs_known_machines_of_known_types(tmp_path: Path) -> None:
    instance = read_contest(write(tmp_path))
    write(tmp_path, instance_deploy=(3, 2, "machine_9"))
    assert places_of(read_contest_placement, tmp_path, instance) == [(INSTANCES, 3, "machine")]
    write(tmp_path, machine_resources=(2, 1, 33))
    assert places_of(read_contest_placement, tmp_path, instance) == [(MACHINES, 2, "cpu, memory")]


@settings(max_examples=20, deadline=None)
@given(instances(points=POINTS, resources=("cpu", "memory")))
def test_written_files_are_read_back(instance: Instance) -> None:
    with tempfile.TemporaryDirectory() as folder:
        write_contest(Path(folder) / "new", instance)
        assert_same(read_contest(Path(folder) / "new"), instance)


def test_constant_resources_are_written_too(tmp_path: Path) -> None:
    names = ("cpu", "memory", "disk", "P", "M", "PM")
    instance = read_contest(write(tmp_path), resources=names)
    write_contest(tmp_path / "again", instance)
    assert_same(read_contest(tmp_path / "again", resources=names), instance)


@pytest.mark.parametrize(
    ("table", "row", "place", "value", "column"),
    [
        (APPS, 2, 0, "app_1", "app"),
        (APPS, 2, 0, "", "app"),
        (APPS, 2, 1, "1|2", "cpu"),
        (APPS, 2, 2, "|".join(["-1"] * 98), "memory"),
        (APPS, 2, 2, "|".join(["2e9"] * 98), "memory"),
        (APPS, 2, 3, "much", "disk"),
        (APPS, 3, 3, "-1", "disk"),
        (APPS, 2, 4, "-1", "P"),
        (INSTANCES, 4, 0, "inst_1", "instance"),
        (INSTANCES, 4, 0, "", "instance"),
        (INSTANCES, 4, 1, "app_9", "app"),
        (INSTANCES, 4, 1, "", "app"),
        (MACHINES, 3, 0, "machine_1", "machine"),
        (MACHINES, 3, 0, "", "machine"),
        (MACHINES, 3, 1, "many", "cpu"),
        (MACHINES, 3, 2, "-5", "memory"),
        (MACHINES, 3, 3, "nan", "disk"),
        (MACHINES, 3, 4, "", "P"),
        (LIMITS, 2, 0, "app_9", "app"),
        (LIMITS, 2, 1, "", "other"),
        (LIMITS, 2, 2, "-1", "limit"),
        (LIMITS, 2, 2, "1.5", "limit"),
        (LIMITS, 2, 2, "", "limit"),
    ],
)
def test_a_malformed_field_is_named(tmp_path: Path, table: str, row: int, place: int, value: str, column: str) -> None:
    write(tmp_path, **{table.removesuffix(".csv"): (row, place, value)})
    assert (table, row, column) in places_of(lambda: read_contest(tmp_path, resources=("cpu", "memory", "disk", "P")))


@pytest.mark.parametrize("name", FILES)
def test_missing_empty_and_damaged_files_are_refused(tmp_path: Path, name: str) -> None:
    """The message names the pattern of the missing file, or the empty or damaged file. Only the limits may be empty."""
    path = write(tmp_path) / name
    whole = path.read_bytes()
    path.write_bytes(b"")
    if name == LIMITS:
        assert len(read_contest(tmp_path).affinity) == 0
    else:
        problem = problems_of(read_contest, tmp_path)[0]
        assert (Path(problem.file).name, problem.found) == (name, "no rows")
    path.unlink()
    assert f"*{name.removesuffix('.csv')}*.csv" in problems_of(read_contest, tmp_path)[0].expected
    path.with_suffix(".csv.xz").write_bytes(lzma.compress(whole)[:-9])
    assert "damaged" in problems_of(read_contest, tmp_path)[0].found
