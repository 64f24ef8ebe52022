"""Node counts of the authors' programs on the two instances of ../shared/data/lra, and totals of the paper."""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path

import pytest

from plb.provisioning import Instance, provision

DATA = Path(__file__).parents[3] / "shared" / "data" / "lra"
NAMES = {
    "FFD-Degree (Medea-TP)": "Medea-TagPopularity",
    "NCD-Fitness (LRASched)": "LRASched-Fitness",
    "WFD-AvgExpo": "WFD-AvgExp",
}
pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="needs ../shared/data/lra")


def rows() -> list[tuple[str, str, int, int]]:
    """Return instance, algorithm, nodes and lower bound of the authors' programs."""
    if not DATA.is_dir():
        return []
    with (DATA / "peer_results.csv").open() as file:
        return [
            (row["instance"], NAMES.get(row["algorithm"], row["algorithm"]), int(row["nodes"]), int(row["lower_bound"]))
            for row in csv.DictReader(file)
        ]


@cache
def instance_of(name: str) -> Instance:
    from workloads.provisioning import read_authors

    return read_authors(DATA / f"{name}.csv.gz")


@pytest.mark.parametrize(("name", "algorithm", "nodes", "bound"), rows())
def test_node_counts_equal_those_of_the_authors_programs(name: str, algorithm: str, nodes: int, bound: int) -> None:
    plan = provision(instance_of(name), algorithm, rules="released")
    assert (plan.nodes, plan.lower_bound) == (nodes, bound)
    assert plan.valid


@pytest.mark.slow
@pytest.mark.parametrize("name", ["TClab_dataset_2D", "arbitrary_d1_seed1"])
def test_auto_comes_within_one_percent_of_the_lower_bound(name: str) -> None:
    """The best of the authors' programs are within 3.4 %."""
    plan = provision(instance_of(name))
    assert plan.valid
    assert plan.deviation_percent < 1.0
