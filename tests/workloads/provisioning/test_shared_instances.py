"""The original files of the contest and the authors, if available, compared with independent counts."""

from __future__ import annotations

import ast
import csv
import gzip
import lzma
from collections import Counter

import numpy as np
import pytest

from tests.workloads.provisioning.instance_files import peaks_only
from tests.workloads.provisioning.instances import limits_of, shared
from workloads.provisioning import PAPER_NODES, read_authors, read_contest, read_contest_placement

POINTS = 98


@pytest.mark.parametrize(("name", "limits"), [("TClab_dataset_2D", 24_078), ("arbitrary_d1_seed1", 871_889)])
def test_the_files_of_the_authors_are_read(name: str, limits: int) -> None:
    """Applications, replicas and limits equal those from the csv and ast modules of Python."""
    path = shared(f"lra/{name}.csv.gz")
    instance = read_authors(path)
    assert (len(instance.applications), int(instance.replicas.sum())) == (9_338, 68_224)
    assert len(instance.affinity) == limits
    csv.field_size_limit(10**8)
    with gzip.open(path, "rt") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    assert instance.applications == tuple(row["app_id"] for row in rows)
    assert instance.demand[:, :, 0].tolist() == [[int(row["core"]), int(row["memory"])] for row in rows]
    start = np.searchsorted(instance.affinity.source, np.arange(len(rows) + 1))
    for number in range(0, len(rows), 97):
        arcs = slice(start[number], start[number + 1])
        result = zip(instance.affinity.target[arcs] + 1, instance.affinity.most[arcs], strict=True)
        assert [(int(j), int(k)) for j, k in result] == ast.literal_eval(rows[number]["inter_aff"])


def test_the_contest_gives_the_data_set_of_the_authors() -> None:
    """With the nodes of the paper and without self limits, the peaks equal TClab_dataset_2D for each application."""
    source = shared("tianchi2018_prelim_b")
    authors = read_authors(shared("lra/TClab_dataset_2D.csv.gz"))
    contest = peaks_only(read_contest(source, nodes=PAPER_NODES, self_limits=False))
    names = tuple(name.removeprefix("app_") for name in contest.applications)
    ours = {name: (int(contest.replicas[i]), contest.demand[i].tolist()) for i, name in enumerate(names)}
    theirs = {
        name: (int(authors.replicas[i]), authors.demand[i].tolist()) for i, name in enumerate(authors.applications)
    }
    assert ours == theirs
    assert limits_of(contest.affinity, names) == limits_of(authors.affinity, authors.applications)


def test_the_contest_is_read_in_full() -> None:
    """Curves, self limits, both node types and the 90 % of instances with a machine equal those of the rows."""
    source = shared("tianchi2018_prelim_b")
    instance = read_contest(source)
    assert instance.demand.shape == (9_338, 2, POINTS)
    assert [(node.name, node.count) for node in instance.nodes] == [("92x288", 3000), ("32x64", 3000)]
    itself = instance.affinity.source == instance.affinity.target
    assert Counter(instance.affinity.most[itself].tolist()) == {3: 9171, 1: 118, 2: 45, 4: 4}
    with lzma.open(source / "app_resources.csv.xz", "rt") as file:
        row = next(line for line in file if line.startswith("app_9338,")).split(",")
    assert instance.demand[9337, 0].tolist() == [round(float(value) * 1e6) for value in row[1].split("|")]
    placement = read_contest_placement(source, instance)
    names = placement.node_names()
    with lzma.open(source / "instance_deploy.csv.xz", "rt") as file:
        rows = [line.strip().split(",") for line in file]
    counted = Counter((machine, app) for _, app, machine in rows if machine)
    assert placement.count.sum() == counted.total() == 61_254
    result = {
        (names[node], instance.applications[app]): count
        for node, app, count in zip(
            placement.node.tolist(), placement.application.tolist(), placement.count.tolist(), strict=True
        )
    }
    assert result == counted
