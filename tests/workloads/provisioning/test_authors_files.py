"""The CSV format of the authors of [3]."""

from __future__ import annotations

import gzip
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plb.errors import ConflictError, InvalidValueError
from plb.provisioning import Instance
from tests.workloads.provisioning.instance_files import write_authors
from tests.workloads.provisioning.instances import NODES, assert_same, instances, limits_of, places_of, problems_of
from workloads.provisioning import NodeSpec, read_authors

HEADER = "app_id\tnb_instances\tcore\tmemory\tinter_degree\tinter_aff"
ROWS = ("a\t2\t1\t8\t1\t[(b, 2)]", "b\t1\t0.5\t4\t0\t[]", "c\t3\t1\t2\t2\t[(a,0), (c, 1)]")
CURVES = ("a\t2\t[1, 0.5]\t[8, 8.25]\t0\t[]", "b\t1\t[0.5, 1]\t[4, 4]\t1\t[(a,1)]", "c\t1\t[1, 1]\t[1, 1]\t0\t[]")


def write(path: Path, rows: tuple[str, ...] = ROWS, header: str = HEADER) -> Path:
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return path


@settings(max_examples=40, deadline=None)
@given(instances(), st.sampled_from(["csv", "csv.gz", "csv.xz", "csv.bz2"]))
def test_written_files_are_read_back(instance: Instance, ending: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"drawn.{ending}"
        write_authors(path, instance)
        again = read_authors(path, nodes=NODES)
    assert_same(again, instance)
    assert again.name == "drawn"


def test_columns_have_the_meaning_of_the_authors(tmp_path: Path) -> None:
    """They are replicas, demand in the largest decimal unit, and limits. Default nodes have 64 cores and 128 GB."""
    instance = read_authors(write(tmp_path / "small.csv"))
    assert (instance.name, instance.applications) == ("small", ("a", "b", "c"))
    assert instance.replicas.tolist() == [2, 1, 3]
    assert instance.units == (0.1, 1.0)
    assert instance.demand[:, :, 0].tolist() == [[10, 8], [5, 4], [10, 2]]
    assert limits_of(instance.affinity, instance.applications) == [("a", "b", 2), ("c", "a", 0), ("c", "c", 1)]
    assert [(node.capacity.tolist(), node.count) for node in instance.nodes] == [([640, 128], None)]


def test_quoted_names_and_huge_limits_are_read(tmp_path: Path) -> None:
    """A quoted name, as in Python lists of strings, is read without quotes.

    A limit beyond 32 bits is the largest one.
    """
    instance = read_authors(write(tmp_path / "x.csv", ("a\t1\t1\t1\t1\t[('b', 99999999999999999999)]", ROWS[1])))
    assert limits_of(instance.affinity, instance.applications) == [("a", "b", 2**31 - 2)]


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("app_id", "a"),
        ("app_id", "b b"),
        ("app_id", "(b)"),
        ("nb_instances", "0"),
        ("nb_instances", "1.5"),
        ("nb_instances", "many"),
        ("nb_instances", ""),
        ("core", "-1"),
        ("core", "nan"),
        ("core", "[0.5, 0.5]"),
        ("core", "0.5, 0.5"),
        ("core", "[0.5"),
        ("memory", "inf"),
        ("memory", "[]"),
        ("memory", "1e10"),
        ("inter_degree", "1"),
        ("inter_degree", "none"),
        ("inter_aff", "[(z, 2)]"),
        ("inter_aff", "[(a, -1)]"),
        ("inter_aff", "[(a, 1.5)]"),
        ("inter_aff", "[(a, 1) (c, 1)]"),
        ("inter_aff", "[(a, 1),]"),
        ("inter_aff", "(a, 1)"),
        ("inter_aff", ""),
    ],
)
def test_a_malformed_field_is_named(tmp_path: Path, column: str, value: str) -> None:
    fields = dict(zip(HEADER.split("\t"), ROWS[1].split("\t"), strict=True)) | {column: value}
    if value.startswith("[(z"):
        fields["inter_degree"] = "1"
    path = write(tmp_path / "bad.csv", (ROWS[0], "\t".join(fields.values()), *ROWS[2:]))
    assert ("bad.csv", 3, column) in places_of(read_authors, path)


def test_curves_of_different_lengths_are_named(tmp_path: Path) -> None:
    rows = (*CURVES, "d\t1\t[1, 1, 1]\t[1, 1]\t0\t[]", "e\t1\t[1, 1]\t1\t0\t[]")
    assert places_of(read_authors, write(tmp_path / "x.csv", rows)) == [("x.csv", 5, "core"), ("x.csv", 6, "memory")]


def test_a_limit_for_an_unknown_application_is_located(tmp_path: Path) -> None:
    """Earlier limits, in the same row and above, do not change the reported row."""
    rows = (ROWS[0], "b\t1\t1\t1\t2\t[(a, 1), (lost, 1)]", ROWS[2])
    assert places_of(read_authors, write(tmp_path / "x.csv", rows)) == [("x.csv", 3, "inter_aff")]
    assert "'lost'" in problems_of(read_authors, tmp_path / "x.csv")[0].found


def test_other_files_are_refused(tmp_path: Path) -> None:
    assert "no such file" in problems_of(read_authors, tmp_path / "none.csv")[0].found
    assert "a directory" in problems_of(read_authors, tmp_path)[0].found
    path = tmp_path / "x.csv"
    path.write_text("")
    assert "no rows" in problems_of(read_authors, path)[0].found
    assert "no rows" in problems_of(read_authors, write(path, ()))[0].found
    assert "columns" in problems_of(read_authors, write(path, ROWS, HEADER.replace("core", "cores")))[0].found
    assert places_of(read_authors, write(path, (ROWS[0], ROWS[1] + "\tmore"))) == [("x.csv", 3, None)]
    content = write(path).read_bytes()
    for ending, damaged in ((".gz", gzip.compress(content)[:-12]), (".xz", b"no xz"), (".bz2", b"no bz2")):
        packed = path.with_suffix(f".csv{ending}")
        packed.write_bytes(damaged)
        assert "damaged" in problems_of(read_authors, packed)[0].found


def test_a_replica_larger_than_every_node_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "x.csv", ("huge\t1\t64.5\t1\t0\t[]",))
    with pytest.raises(InvalidValueError, match=r"application huge: demand = '64.5 core, 1 memory'"):
        read_authors(path)


def test_nodes_are_checked(tmp_path: Path) -> None:
    path = write(tmp_path / "x.csv")
    with pytest.raises(InvalidValueError, match="at least one kind"):
        read_authors(path, nodes=())
    with pytest.raises(ConflictError, match="1 capacities, expected 2"):
        read_authors(path, nodes=(NodeSpec("n", (64.0,)),))
    with pytest.raises(InvalidValueError, match=r"node type n: capacity\[memory\]"):
        read_authors(path, nodes=(NodeSpec("n", (64.0, float("nan"))),))
