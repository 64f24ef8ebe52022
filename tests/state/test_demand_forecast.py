"""A replica keeps its sampled traces while they are eligible; only the others are sampled again."""

from __future__ import annotations

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plb import Metric, MoveKind, Node, Partition, PlacementAndLoadBalancing, PlbConfig, Replica, Role, Service
from plb.risk import DemandHistory
from plb.state.cluster_state import ClusterState
from plb.state.demand_forecast import Forecast
from plb.state.demand_sources import demand_forecast_of
from plb.testing import all_clusters, clusters
from tests.engine.oracle import placement_of
from tests.engine.strategies import examples
from tests.risk.oracles import plain_eligible

pytestmark = pytest.mark.kernels

PRIMARY, SECONDARY, INSTANCE = Role


def samples_of(engine: PlacementAndLoadBalancing, now: float = 0.0) -> np.ndarray:
    """Return the sampled traces of every row, up to date."""
    engine._planner.problem(now)
    return engine._planner.demand_forecast.trace.copy()


def renewed(demand_forecast: Forecast, state: ClusterState, now: float) -> int:
    """Renew the peaks of all rows that are due; return the number of rows."""
    due = demand_forecast.find_due(state, now)
    demand_forecast.renew(state)
    return len(due)


@examples(120)
@given(clusters(with_history=True), st.data())
def test_reports_resample_only_ineligible_traces(cluster, data):
    """While the eligible set shrinks within one level, samples in it stay; new samples come from it."""
    engine = cluster.engine(w_failovers=0.1)
    history = engine._planner.demand_forecast.history
    classes = {p.name: cluster.service_of(p.name).tenant_class for p in cluster.partitions}
    created = {p.name: p.created for p in cluster.partitions}
    largest = {}
    now = 0.0

    def eligible(index, replica):
        demand = largest.get(index, engine._state.rows.largest_demand[index])
        age = max(0.0, now - created[replica.partition])
        return plain_eligible(history, classes[replica.partition], replica.role, age, demand[: len(cluster.metrics)])

    rows = {i: r for i, r in placement_of(engine, cluster).items() if not r.leaving}
    levels = {index: eligible(index, replica) for index, replica in rows.items()}
    samples = samples_of(engine, now)
    for index, (_, fit) in levels.items():
        assert set(samples[index].tolist()) <= set(fit)
    for _ in range(data.draw(st.integers(1, 3))):
        now += data.draw(st.integers(0, 15))
        for index, replica in rows.items():
            if replica.node is not None and data.draw(st.booleans()):
                load = {metric.name: data.draw(st.integers(0, 16)) for metric in cluster.metrics}
                engine.report_load(replica.partition, replica.node, load)
                old = largest.get(index, engine._state.rows.largest_demand[index])
                largest[index] = np.maximum(old, list(load.values()))
        later = samples_of(engine, now)
        for index, replica in rows.items():
            level, fit = eligible(index, replica)
            assert set(later[index].tolist()) <= set(fit)
            if level == levels[index][0]:
                kept = np.isin(samples[index], fit)
                assert (later[index][kept] == samples[index][kept]).all()
            levels[index] = level, fit
        samples = later


@examples(60)
@given(all_clusters())
def test_moves_and_swaps_keep_all_samples(cluster):
    engine = cluster.engine(swap_primary_probability=0.5, w_imbalance=100.0, w_failovers=0.1)
    table = engine._state.rows
    samples = samples_of(engine)
    demand, created = table.largest_demand.copy(), table.created.copy()
    for verb in ("place", "repair", "balance"):
        engine.apply(getattr(engine, verb)(budget=240))
    assert np.array_equal(samples_of(engine), samples)
    assert np.array_equal(table.largest_demand, demand)
    assert np.array_equal(table.created, created)


@pytest.fixture
def engine() -> PlacementAndLoadBalancing:
    """Return five nodes, a stateful partition of three replicas with a report on each, and many traces."""
    traces = 200
    level = [[float(i % 40)] for i in range(traces)]
    history = DemandHistory.from_columns(
        ("cpu",),
        tenant_class=["gold"] * traces,
        role=[i % 2 for i in range(traces)],
        lifetime=[1000] * traces,
        level=level,
        initial=[[0]] * traces,
        growth=[[0]] * traces,
        maximum=level,
    )
    made = PlacementAndLoadBalancing(PlbConfig(metrics=[Metric("cpu")], repetitions=12), seed=2, history=history)
    for index in range(5):
        made.update_node(Node(f"n{index}", capacities={"cpu": 100}))
    made.update_service(Service("db", target_replicas=3, tenant_class="gold"))
    made.update_partition(db(("n0", PRIMARY), ("n1", SECONDARY), ("n2", SECONDARY)))
    for index, load in enumerate((9.0, 2.0, 3.0)):
        made.report_load("db/0", f"n{index}", {"cpu": load})
    return made


def db(*ends: tuple[str, Role], leaving: str | None = None) -> Partition:
    """Return the partition with replicas on the given nodes."""
    replicas = [Replica(role, node) for node, role in ends]
    if leaving is not None:
        replicas.append(Replica(SECONDARY, leaving, leaving=True))
    return Partition("db/0", service="db", replicas=replicas)


def index_of(engine: PlacementAndLoadBalancing, node: str) -> int:
    """Return the index of the replica on a node that does not leave."""
    return next(r.index for r in engine.replicas("db/0") if r.node == node and not r.leaving)


def rows_of(engine: PlacementAndLoadBalancing) -> list[int]:
    return [r.index for r in engine.replicas("db/0") if not r.leaving]


@pytest.mark.parametrize(
    ("primary", "secondaries"),
    [("n0", ("n1", "n4")), ("n1", ("n0", "n2")), ("n0", ("n1", "n2"))],
    ids=["a move", "a swap", "no change"],
)
def test_update_of_a_partition_keeps_indices_and_samples(engine, primary, secondaries):
    samples, demand = samples_of(engine), engine._state.rows.largest_demand.copy()
    rows = [index_of(engine, node) for node in ("n0", "n1", "n2")]
    engine.update_partition(db((primary, PRIMARY), *((node, SECONDARY) for node in secondaries)))
    assert [index_of(engine, node) for node in (primary, *secondaries)] == rows
    assert np.array_equal(samples_of(engine), samples)
    assert np.array_equal(engine._state.rows.largest_demand, demand)


def test_promotion_resamples_only_the_primary(engine):
    """A secondary takes the place of the lost primary: only the slot of the primary is sampled again."""
    samples, primary = samples_of(engine), index_of(engine, "n0")
    engine.update_partition(db(("n1", PRIMARY), ("n2", SECONDARY)))
    later = samples_of(engine)
    assert index_of(engine, "n1") == primary
    assert not np.array_equal(later[primary], samples[primary])
    others = [r.index for r in engine.replicas("db/0") if r.index != primary]
    assert np.array_equal(later[others], samples[others])


def test_age_resamples_traces_with_shorter_lifetimes(engine):
    """All traces live to 1000 s; at 1001 s none does, so the criteria widen."""
    samples = samples_of(engine)
    assert np.array_equal(samples_of(engine, 1000.0), samples)
    assert renewed(engine._planner.demand_forecast, engine._state, 1000.0) == 0
    assert renewed(engine._planner.demand_forecast, engine._state, 1001.0) == 3


@pytest.mark.parametrize("now", [400.0, 1500.0])
def test_partition_that_is_created_again_has_the_samples_of_a_new_one(engine, now):
    """A tenant that left and returned under the same name is young again: the samples of the first one are void."""
    first = samples_of(engine)[rows_of(engine)]
    engine.report_load("db/0", "n0", {"cpu": 38.0})
    old = samples_of(engine, now)[rows_of(engine)]
    engine.remove_partition("db/0")
    engine.update_partition(attrs.evolve(db(("n0", PRIMARY), ("n1", SECONDARY), ("n2", SECONDARY)), created=now))
    for index, load in enumerate((9.0, 2.0, 3.0)):
        engine.report_load("db/0", f"n{index}", {"cpu": load})
    assert not np.array_equal(old, first)
    assert np.array_equal(samples_of(engine, now)[rows_of(engine)], first)


@pytest.mark.parametrize("reports", [True, False])
def test_second_partition_of_a_name_has_the_forecast_of_a_new_one(reports):
    """Peaks anchored at the load of the first partition end with it, whether or not the second one reports."""
    level = [[97.0]]
    history = DemandHistory.from_columns(
        ("cpu",),
        tenant_class=["gold"],
        role=[0],
        lifetime=[1e6],
        level=level,
        initial=[[1.0]],
        growth=[[600.0]],
        maximum=level,
    )

    def made() -> PlacementAndLoadBalancing:
        engine = PlacementAndLoadBalancing(PlbConfig(metrics=[Metric("cpu")]), history=history)
        engine.update_node(Node("n0", capacities={"cpu": 100}))
        engine.update_service(Service("db", tenant_class="gold"))
        return engine

    def risk(engine: PlacementAndLoadBalancing) -> float:
        engine.update_partition(Partition("db/0", service="db", replicas=[Replica(PRIMARY, "n0")], created=6000.0))
        if reports:
            engine.report_load("db/0", "n0", {"cpu": 2.0})
        return engine.balance(now=6000.0).energy_before.expected_failovers

    used = made()
    used.update_partition(Partition("db/0", service="db", replicas=[Replica(PRIMARY, "n0")]))
    used.balance(now=0.0)
    used.report_load("db/0", "n0", {"cpu": 5.0})
    assert used.balance(now=5000.0).energy_before.expected_failovers == 0.0
    used.remove_partition("db/0")
    assert risk(used) == risk(made()) == 1.0


def test_going_back_in_time_anchors_again(engine):
    """A host may go back to an earlier snapshot; the forecast equals the one made then."""
    engine.update_partition(db(("n0", PRIMARY), ("n1", SECONDARY), ("n2", SECONDARY)))
    samples_of(engine, 100.0)
    before = engine._planner.demand_forecast.peak.copy()
    samples_of(engine, 900.0)
    samples_of(engine, 100.0)
    assert np.array_equal(engine._planner.demand_forecast.peak, before)


def growing_history(random: np.random.Generator) -> DemandHistory:
    """Return 40 traces of one metric with trend and one without; some grow for long and some not at all."""
    initial, growth = random.integers(0, 8, (40, 2)), random.choice([0.0, 300.0, 5000.0, 90_000.0], (40, 2))
    level = initial + random.integers(0, 24, (40, 2)) / 4
    return DemandHistory.from_columns(
        ("memory", "cpu"),
        tenant_class=["gold"] * 40,
        role=random.integers(0, 2, 40).tolist(),
        lifetime=random.choice([600.0, 7200.0, 200_000.0], 40),
        level=level,
        initial=initial,
        growth=growth,
        maximum=level + random.integers(0, 4, (40, 2)),
    )


time_steps = st.sampled_from([0.0, 0.5, 60.0, 300.0, 600.0, 7000.0, -600.0])
reports = (
    st.none()
    | st.sampled_from(["reset", 3.0, 5.0])  # a number is a limit of the service
    | st.tuples(st.sampled_from(["n0", "n1"]), st.integers(0, 12), st.integers(0, 12))
)


@examples(100)
@given(
    st.integers(0, 2**32 - 1),
    st.lists(st.tuples(time_steps, reports), min_size=6, max_size=14),
    st.sampled_from(["anchored", "from_present"]),
    st.sampled_from(
        [
            "monte-carlo",
            "monte-carlo:horizon=1",
            "monte-carlo:horizon=24,maximum_from=0.5",
        ]
    ),
)
def test_demand_forecast_kept_over_time_equals_one_from_scratch(seed, events, replay, estimator):
    metrics = [Metric("memory", quantum=0.25), Metric("cpu", quantum=0.25, trend=False)]
    history = growing_history(np.random.default_rng(seed))
    config = PlbConfig(metrics=metrics, repetitions=60, replay=replay, estimator=estimator)
    engine = PlacementAndLoadBalancing(config, seed=3, history=history)
    for name in ("n0", "n1"):
        engine.update_node(Node(name, capacities={"cpu": 8}))
    engine.update_service(Service("db", tenant_class="gold", target_replicas=2, limits={"cpu": 4}))
    engine.update_partition(db(("n0", PRIMARY), ("n1", SECONDARY)))
    state, kept_forecast, now = engine._state, engine._planner.demand_forecast, 0.0
    rows = state.partitions["db/0"].rows
    for passed, report in events:
        now = max(0.0, now + passed)
        if report == "reset":
            engine.reset_load("db/0")
        elif isinstance(report, float):
            engine.update_service(Service("db", tenant_class="gold", target_replicas=2, limits={"cpu": report}))
        elif report is not None:
            engine.report_load("db/0", report[0], {"memory": report[1] / 4, "cpu": report[2] / 4})
        renewed(kept_forecast, state, now)
        from_scratch = demand_forecast_of(config, history, 3)
        renewed(from_scratch, state, now)
        assert np.array_equal(kept_forecast.trace[rows], from_scratch.trace[rows])
        assert np.array_equal(kept_forecast.peak, from_scratch.peak)
        assert np.array_equal(kept_forecast.peak_ceiling, from_scratch.peak_ceiling)


def test_engine_without_weight_on_risk_samples_nothing(engine):
    made = PlacementAndLoadBalancing(
        attrs.evolve(engine.config, w_failovers=0.0, w_overload=0.0),
        seed=2,
        history=engine._planner.demand_forecast.history,
    )
    assert made._planner.demand_forecast.repetitions == 0
    assert made._planner.demand_forecast.peak.nbytes == 0


def test_slots_of_a_partition_have_different_samples(engine):
    """The samples differ even after slots were removed and others added: each slot has its own key."""
    engine.update_service(Service("db", target_replicas=2, tenant_class="gold"))
    engine.update_partition(db(("n0", PRIMARY), ("n2", SECONDARY)))
    engine.update_service(Service("db", target_replicas=5, tenant_class="gold"))
    engine.update_partition(db(("n0", PRIMARY), ("n2", SECONDARY)))
    rows = [r.index for r in engine.replicas("db/0")]
    assert len(rows) == 5
    assert len(set(engine._state.rows.key[rows].tolist())) == 5


@examples(40)
@given(clusters(with_history=True), st.permutations(range(5)))
def test_samples_do_not_depend_on_other_partitions(cluster, order):
    """The samples of a partition equal those in an engine with the partitions added in another order."""
    other = attrs.evolve(cluster, partitions=tuple(cluster.partitions[i] for i in order if i < len(cluster.partitions)))
    one, two = cluster.engine(w_failovers=0.1), other.engine(w_failovers=0.1)
    traces, twins = samples_of(one), samples_of(two)
    for partition in cluster.partitions:
        rows, others = ([r.index for r in e.replicas(partition.name) if not r.leaving] for e in (one, two))
        assert np.array_equal(traces[rows], twins[others])


def test_swap_in_a_plan_exchanges_nodes_and_keeps_samples(engine):
    config = attrs.evolve(engine.config, swap_primary_probability=1.0, w_imbalance=1000.0, exchange_probability=0.0)
    for seed in range(5):
        swapping = PlacementAndLoadBalancing(config, seed=seed, history=engine._planner.demand_forecast.history)
        for index in range(3):
            swapping.update_node(Node(f"n{index}", capacities={"cpu": 100}))
        swapping.update_service(Service("db", target_replicas=3, tenant_class="gold"))
        swapping.update_service(Service("web", stateful=False))
        swapping.update_partition(db(("n0", PRIMARY), ("n1", SECONDARY), ("n2", SECONDARY)))
        swapping.update_partition(Partition("web/0", service="web", replicas=[Replica(INSTANCE, "n0", pinned=True)]))
        swapping.report_load("db/0", "n0", {"cpu": 20})
        swapping.report_load("web/0", "n0", {"cpu": 20})
        samples, primary = samples_of(swapping), index_of(swapping, "n0")
        plan = swapping.balance()
        swaps = [move for move in plan.moves if move.kind is MoveKind.SWAP]
        assert len(swaps) == 1
        swapping.apply(plan)
        assert index_of(swapping, swaps[0].target) == primary
        assert np.array_equal(samples_of(swapping), samples)
