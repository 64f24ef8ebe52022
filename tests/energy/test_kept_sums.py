"""An engine updates its sums of peaks between plans for changed nodes only; they equal those from scratch."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plb import Metric, Node, Partition, PlacementAndLoadBalancing, PlbConfig, Replica, Role, Service
from plb.array_types import NOWHERE
from plb.energy.aggregates import KeptPeakSums, PeakSums, peak_sums
from plb.energy.score import W_OVERLOAD
from plb.evaluation.self_checks import compare_with_scratch
from plb.risk import DemandHistory
from plb.state.arrays import Problem
from plb.testing import all_clusters, clusters, configuration_of
from plb.testing.cluster import Cluster
from tests.engine.strategies import examples


def are_equal(one: PeakSums, other: PeakSums) -> bool:
    """Return whether all sums are equal."""
    names = ("aggregate", "ceiling", "violating", "overload")
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in names)


def sums_by_hand(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """Return the aggregates, and the repetitions in violation of each node, computed row by row and node by node."""
    nodes, metrics = problem.limit.shape
    aggregate = np.zeros((nodes, metrics, problem.peak.shape[2]), np.int64)
    for row, node in enumerate(problem.origin.tolist()):
        if node != NOWHERE and not problem.leaving[row]:
            aggregate[node] += problem.peak[row]
    violating = [
        sum((aggregate[node, :, k] >= problem.threshold[node]).any() for k in range(aggregate.shape[2]))
        if problem.counted[node]
        else 0
        for node in range(nodes)
    ]
    return aggregate, np.array(violating)


@pytest.mark.kernels
@examples(100)
@given(all_clusters())
def test_sums_from_scratch_are_sums_over_placed_replicas(cluster):
    """Every replica counts on its node in every repetition; leaving replicas do not."""
    problem = configuration_of(cluster.engine()).problem
    sums = peak_sums(problem, problem.origin)
    aggregate, violating = sums_by_hand(problem)
    assert np.array_equal(sums.aggregate, aggregate)
    assert np.array_equal(sums.violating, violating)


@pytest.mark.kernels
@examples(100)
@given(clusters(with_history=True), st.data())
def test_kept_sums_equal_those_from_scratch(cluster, data):
    """They are equal after any changes of rows, peaks, counted nodes, thresholds and the weight of overload."""
    problem = configuration_of(cluster.engine(w_failovers=0.1)).problem
    problem = problem._replace(peak=problem.peak.copy(), peak_ceiling=problem.peak_ceiling.copy())
    rows, nodes = len(problem.origin), len(problem.limit)
    some_rows = st.lists(st.integers(0, rows - 1), max_size=4)
    kept = KeptPeakSums()
    for _ in range(data.draw(st.integers(2, 6))):
        origin, leaving, changed = problem.origin.copy(), problem.leaving.copy(), np.zeros(rows, np.bool_)
        for row in data.draw(some_rows):
            origin[row] = data.draw(st.integers(NOWHERE, nodes - 1))
        leaving[data.draw(some_rows)] ^= True
        for row in data.draw(some_rows):
            problem.peak[row] = data.draw(st.integers(0, 40))
            problem.peak_ceiling[row] = problem.peak[row].max(axis=1)
            changed[row] = True
        problem = problem._replace(origin=origin, leaving=leaving)
        if data.draw(st.booleans()):
            counted = problem.counted.copy()
            counted[data.draw(st.integers(0, nodes - 1))] ^= True
            problem = problem._replace(counted=counted)
        if data.draw(st.booleans()):
            threshold = problem.threshold.copy()
            threshold[data.draw(st.integers(0, nodes - 1))] = data.draw(st.integers(1, 40))
            problem = problem._replace(threshold=threshold)
        if data.draw(st.booleans()):
            weights = problem.weights.copy()
            weights[W_OVERLOAD] = data.draw(st.sampled_from([0.0, 1.0]))
            problem = problem._replace(weights=weights)
        assert are_equal(kept.update(problem, changed), peak_sums(problem, origin))


@pytest.fixture
def problem(small_cluster: Cluster) -> Problem:
    """Return three nodes and four replicas, with peaks that a test may change."""
    problem = configuration_of(small_cluster.engine()).problem
    return problem._replace(peak=problem.peak.copy())


@pytest.mark.kernels
def test_only_changed_nodes_are_summed_again(problem):
    """A change of a peak without a report appears only after a reported change on the same node."""
    kept = KeptPeakSums()
    nothing = np.zeros(len(problem.origin), np.bool_)
    before = kept.update(problem, nothing)
    row = int(np.flatnonzero(problem.origin != NOWHERE)[0])
    problem.peak[row] += 1
    assert are_equal(kept.update(problem, nothing), before)
    reported = nothing.copy()
    reported[row] = True
    after = kept.update(problem, reported)
    assert (after.aggregate[problem.origin[row]] == before.aggregate[problem.origin[row]] + 1).all()


@pytest.mark.kernels
def test_changes_of_a_search_to_its_sums_are_not_kept(problem):
    """The sums that a search receives are a copy."""
    kept = KeptPeakSums()
    nothing = np.zeros(len(problem.origin), np.bool_)
    kept.update(problem, nothing).aggregate[:] = 99
    assert are_equal(kept.update(problem, nothing), peak_sums(problem, problem.origin))


@pytest.mark.kernels
def test_other_peaks_or_nodes_are_summed_from_scratch(problem):
    """Other peaks are in another array, as after a change of settings; other nodes were added or removed."""
    kept = KeptPeakSums()
    nothing = np.zeros(len(problem.origin), np.bool_)
    kept.update(problem, nothing)
    others = problem._replace(peak=problem.peak + 1)
    assert are_equal(kept.update(others, nothing), peak_sums(others, others.origin))
    wider = others._replace(
        limit=np.vstack([others.limit, others.limit[:1]]),
        threshold=np.vstack([others.threshold, others.threshold[:1]]),
        counted=np.append(others.counted, True),
    )
    assert are_equal(kept.update(wider, nothing), peak_sums(wider, wider.origin))


@pytest.mark.parametrize("change", ["report", "time"])
def test_nodes_with_newly_anchored_peaks_are_summed_again(change):
    """A replica keeps its traces; its expected peaks rise after a report, and fall after it has grown."""
    history = DemandHistory.from_columns(
        ["cpu"],
        tenant_class=["gold"] * 2,
        role=[Role.INSTANCE] * 2,
        lifetime=[1e6] * 2,
        level=[[40], [60]],
        initial=[[0], [0]],
        growth=[[1000], [1000]],
        maximum=[[90], [90]],
    )
    engine = PlacementAndLoadBalancing(PlbConfig(metrics=[Metric("cpu")], repetitions=8), history=history)
    engine.update_node(Node("n0", capacities={"cpu": 64}))
    engine.update_service(Service("s", stateful=False, tenant_class="gold", target_replicas=1))
    engine.update_partition(Partition("p", service="s", replicas=[Replica(Role.INSTANCE, "n0")]))
    engine.report_load("p", "n0", {"cpu": 10})
    planner = engine._planner
    before, traces = planner.start(planner.problem(0.0)), planner.demand_forecast.trace.copy()
    if change == "report":
        engine.report_load("p", "n0", {"cpu": 20})
    problem = planner.problem(500.0 if change == "time" else 0.0)
    after = planner.start(problem)
    assert np.array_equal(planner.demand_forecast.trace, traces)
    assert (np.sign(after.aggregate - before.aggregate) == (1 if change == "report" else -1)).all()
    compare_with_scratch(problem, after, change)


@examples(60)
@given(all_clusters(), st.lists(st.sampled_from(["wait", "move", "report", "refresh"]), min_size=1, max_size=8))
def test_plans_from_kept_sums_equal_those_without_them(cluster, events):
    """Two engines have the same events; one loses its kept sums before every plan."""
    engines = [cluster.engine(w_failovers=0.1) for _ in range(2)]
    now = 0.0
    for event in events:
        now += 7.0 if event == "wait" else 0.0
        plans = [_after(engine, cluster, event, now) for engine in engines]
        engines[1]._planner._sums = KeptPeakSums()
        assert plans[0] == plans[1]


def _after(engine: PlacementAndLoadBalancing, cluster: Cluster, event: str, now: float) -> object:
    """Apply an event to an engine, and return the moves and energies of a plan."""
    if event == "report":
        for (partition, node), load in cluster.loads.items():
            if any(replica.node == node for replica in engine.replicas(partition)):
                engine.report_load(partition, node, {name: value + now % 3 for name, value in load.items()})
    plan = engine.balance(now=now, budget=120) if event == "move" else engine.refresh(now, budget=120)
    if event in ("move", "refresh"):
        engine.apply(plan)
    return plan.moves, plan.energy_before, plan.energy_after
