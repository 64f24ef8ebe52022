"""Affinity graphs of a given density, and larger instances."""

from __future__ import annotations

import ast
import csv
import gzip
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plb.errors import InvalidValueError
from plb.provisioning import Affinity, Instance
from tests.workloads.provisioning.instances import instances, shared
from workloads.provisioning import GraphKind, affinity_graph, larger_instance, read_authors, with_graph
from workloads.provisioning.user_units import LIMIT_COUNTS, threshold_of

KINDS = st.sampled_from(GraphKind)
DENSITIES = st.floats(0.0, 0.5)
SEEDS = st.integers(0, 2**32)


def arcs_of(graph: Affinity) -> list[tuple[int, int]]:
    return list(zip(graph.source.tolist(), graph.target.tolist(), strict=True))


def others_of(graph: Affinity, applications: int) -> list[set[int]]:
    """Return the set of applications that each application limits."""
    others: list[set[int]] = [set() for _ in range(applications)]
    for source, target in arcs_of(graph):
        others[source].add(target)
    return others


@settings(max_examples=200, deadline=None)
@given(KINDS, st.integers(1, 40), DENSITIES, SEEDS)
def test_arcs_have_no_loops_and_no_duplicates(kind: GraphKind, applications: int, density: float, seed: int) -> None:
    graph = affinity_graph(kind, applications, density, seed)
    arcs = arcs_of(graph)
    assert len(set(arcs)) == len(arcs)
    assert all(i != j and min(i, j) >= 0 and max(i, j) < applications for i, j in arcs)
    assert set(graph.most.tolist()) <= set(range(5))
    assert graph.source.dtype == graph.target.dtype == graph.most.dtype == np.int32
    again = affinity_graph(str(kind), applications, density, seed)
    assert (arcs_of(again), again.most.tolist()) == (arcs, graph.most.tolist())


@pytest.mark.parametrize("kind", GraphKind)
def test_other_seeds_give_other_graphs(kind: GraphKind) -> None:
    assert len({tuple(arcs_of(affinity_graph(kind, 50, 0.1, seed))) for seed in range(10)}) == 10


@given(st.integers(1, 60), DENSITIES, SEEDS)
def test_arbitrary_graphs_have_the_exact_density(applications: int, density: float, seed: int) -> None:
    pairs = applications * (applications - 1)
    assert len(affinity_graph("arbitrary", applications, density, seed)) == int(density * pairs)


@pytest.mark.parametrize("density", [0.01, 0.2, 0.5])
def test_arbitrary_pairs_are_equally_likely(density: float) -> None:
    graphs = 1000
    count = Counter(arc for seed in range(graphs) for arc in arcs_of(affinity_graph("arbitrary", 12, density, seed)))
    share = int(density * 132) / 132
    spread = math.sqrt(graphs * share * (1 - share))
    assert len(count) == 132
    assert all(abs(times - graphs * share) < 5 * spread for times in count.values())


@pytest.mark.parametrize("density", [0.005, 0.1])
def test_out_degrees_of_normal_graphs_are_normal(density: float) -> None:
    """Their mean is ΔL and their deviation half of it. The negative 2.3 % become 0."""
    applications = 4000
    graph = affinity_graph("normal", applications, density, 7)
    degrees = np.bincount(graph.source, minlength=applications)
    mean = density * applications
    noise = mean / 2 / math.sqrt(applications)
    assert degrees.mean() == pytest.approx(1.00425 * mean, abs=4 * noise)
    assert degrees.std() == pytest.approx(0.49 * mean, rel=0.05)
    below = (degrees <= mean).mean()
    assert below == pytest.approx(0.5, abs=0.05)
    assert (degrees == 0).mean() == pytest.approx(0.0228, abs=0.02)
    reached = np.bincount(graph.target, minlength=applications)
    assert reached.var() == pytest.approx(degrees.mean() * (1 - density), rel=0.2)


def test_normal_graphs_reach_almost_all_others() -> None:
    others = others_of(affinity_graph("normal", 30, 0.5, 3), 30)
    assert max(map(len, others)) > 25
    assert set.union(*others) == set(range(30))


@given(st.integers(2, 40), DENSITIES, SEEDS)
def test_neighbourhoods_of_threshold_graphs_are_nested(applications: int, density: float, seed: int) -> None:
    """Of two applications, one limits all others that the other limits. The same holds for incoming arcs."""
    graph = affinity_graph("threshold", applications, density, seed)
    turned = Affinity(graph.target, graph.source, graph.most)
    for others in (others_of(graph, applications), others_of(turned, applications)):
        for i in range(applications):
            for j in range(i):
                first, second = (others[number] - {i, j} for number in (i, j))
                assert first <= second or second <= first


@pytest.mark.parametrize("density", [0.01, 0.1, 0.5])
def test_threshold_graphs_have_the_density_on_average(density: float) -> None:
    """Over many graphs, the share of arcs is 2d², which is slightly more than the density."""
    applications = 150
    shares = [
        len(affinity_graph("threshold", applications, density, seed)) / (applications * (applications - 1))
        for seed in range(400)
    ]
    expected = 2 * threshold_of(applications, density) ** 2
    assert np.mean(shares) == pytest.approx(expected, abs=4 * np.std(shares) / 20)
    excess = (math.sqrt(density / 2) - density) / applications
    assert expected - density == pytest.approx(excess, rel=0.05, abs=1e-9)


def test_limits_have_the_frequencies_of_the_data() -> None:
    most = affinity_graph("arbitrary", 1000, 0.1, 1).most
    shares = np.bincount(most, minlength=5) / len(most)
    assert shares == pytest.approx(np.array(LIMIT_COUNTS) / sum(LIMIT_COUNTS), abs=0.005)


def test_the_frequencies_are_those_of_the_data() -> None:
    with gzip.open(shared("lra/TClab_dataset_2D.csv.gz"), "rt") as file:
        rows = csv.DictReader(file, delimiter="\t")
        counts = Counter(limit for row in rows for _, limit in ast.literal_eval(row["inter_aff"]))
    assert tuple(counts[value] for value in range(5)) == LIMIT_COUNTS
    assert counts.total() == sum(LIMIT_COUNTS) == 24_078


def test_settings_are_checked() -> None:
    for arguments, field in (
        (("regular", 5, 0.1, 0), "kind"),
        (("normal", 0, 0.1, 0), "applications"),
        (("normal", 5, 0.51, 0), "density"),
        (("normal", 5, -0.1, 0), "density"),
        (("normal", 5, 0.1, -1), "seed"),
    ):
        with pytest.raises(InvalidValueError, match=field):
            affinity_graph(*arguments)


@settings(max_examples=50, deadline=None)
@given(instances(), st.integers(1, 50), KINDS, SEEDS)
def test_larger_instances_are_samples_of_the_given_one(instance, applications, kind, seed) -> None:
    """Every demand and every number of replicas comes from the given instance.

    For a seed, they are equal for all graphs.
    """
    larger = larger_instance(instance, applications, kind, 0.2, seed)
    assert larger.applications == tuple(str(number) for number in range(1, applications + 1))
    assert {row.tobytes() for row in larger.demand} <= {row.tobytes() for row in instance.demand}
    assert set(larger.replicas.tolist()) <= set(instance.replicas.tolist())
    graph = affinity_graph(kind, applications, 0.2, seed)
    assert arcs_of(larger.affinity) == arcs_of(graph)
    again = larger_instance(instance, applications, "threshold", 0.5, seed)
    assert np.array_equal(again.demand, larger.demand)
    assert np.array_equal(again.replicas, larger.replicas)


def test_larger_instances_keep_the_distributions() -> None:
    instance = read_authors(shared("lra/TClab_dataset_2D.csv.gz"))
    larger = larger_instance(instance, 20_000, "arbitrary", 0.0001, 1)
    for drawn, given_ in (
        (larger.replicas, instance.replicas),
        (larger.demand[:, 0, 0], instance.demand[:, 0, 0]),
        (larger.demand[:, 1, 0], instance.demand[:, 1, 0]),
    ):
        assert drawn.mean() == pytest.approx(given_.mean(), abs=4 * given_.std() / math.sqrt(20_000))
    drawn_apart = np.corrcoef(larger.replicas, larger.demand[:, 0, 0])[0, 1]
    assert abs(drawn_apart) < 0.03


@settings(max_examples=30, deadline=None)
@given(instances(), KINDS, SEEDS)
def test_another_graph_keeps_the_applications(instance: Instance, kind: GraphKind, seed: int) -> None:
    changed = with_graph(instance, kind, 0.3, seed)
    assert changed.name == f"{instance.name}-{kind.value}-0.3-{seed}"
    assert changed.applications == instance.applications
    assert np.array_equal(changed.demand, instance.demand)
    assert arcs_of(changed.affinity) == arcs_of(affinity_graph(kind, len(instance.applications), 0.3, seed))
