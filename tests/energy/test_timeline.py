"""Timeline evaluation: a repetition is in violation if some threshold is reached at a departure ([1] section 5.3)."""

from __future__ import annotations

import math
from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from plb import Metric, MoveKind, Node, Partition, PlacementAndLoadBalancing, PlbConfig, Replica, Role, Service
from plb.array_types import NOWHERE
from plb.extensions.configuration import Configuration, Proposal, built_in_term
from plb.risk import DemandHistory
from plb.testing import configuration_of, walks
from plb.testing.cluster import Cluster
from plb.testing.cluster_strategies import settings_of_engines
from plb.testing.histories import CLASSES
from tests.engine.strategies import examples
from tests.risk.oracles import plain_timeline

pytestmark = pytest.mark.kernels

ROUNDING = 1e-9
"""Larger than the errors of the order of operations, in quanta."""
count = st.integers(1, 2)
replays = st.sampled_from(["anchored", "from_present", "as_recorded"])


@st.composite
def growing_clusters(draw: st.DrawFn, replay: str = "anchored") -> Cluster:
    """Draw small clusters with arrivals and departures: young replicas whose peaks sum to about a node's capacity."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    horizon = draw(st.sampled_from([0, 0.002, 0.01]))  # of an hour, in which tenants grow and depart
    metrics = tuple(Metric(name, trend=bool(random.integers(0, 4))) for name in ("cpu", "disk")[: draw(count)])
    names = [metric.name for metric in metrics]
    up = draw(st.booleans()), True, True
    nodes = tuple(
        Node(f"n{i}", capacities=dict.fromkeys(names, int(random.integers(12, 30))), up=up[i]) for i in range(3)
    )
    services = tuple(Service(f"{kind}s", tenant_class=kind, target_replicas=2) for kind in CLASSES)
    partitions = []
    for index in range(draw(st.integers(2, 8))):
        first, second = random.permutation(3)[:2]
        replicas = [Replica(Role.PRIMARY, f"n{first}"), Replica(Role.SECONDARY, f"n{second}")]
        created = -float(random.integers(0, 30))
        partitions.append(Partition(f"p{index}", service=services[index % 2].name, replicas=replicas, created=created))
    reported = [(one.name, replica.node) for one in partitions for replica in one.replicas if random.integers(0, 2)]
    return Cluster(
        metrics=metrics,
        config=draw(settings_of_engines())
        | {"evaluation": "timeline", "replay": replay, "w_failovers": 5.0, "w_imbalance": 1.0}
        | {"estimator": f"monte-carlo:horizon={horizon}"},
        nodes=nodes,
        services=services,
        partitions=tuple(partitions),
        loads={place: {name: int(random.integers(0, 4)) for name in names} for place in reported},
        history=growing_columns(random, [metric.trend for metric in metrics]),
        seed=draw(st.integers(0, 3)),
    )


def growing_columns(random: np.random.Generator, trend: list[bool]) -> dict[str, Any]:
    """Return the columns of a history of every class and role; tenants grow for long and may leave before."""
    traces, metrics = 36, len(trend)
    level = random.integers(1, 9, (traces, metrics))
    return {
        "tenant_class": [CLASSES[index % 2] for index in range(traces)],
        "role": [list(Role)[index % 3] for index in range(traces)],
        "lifetime": random.integers(5, 60, traces),
        "level": level,
        "initial": level * random.integers(0, 5, (traces, metrics)) // 4,
        "growth": random.choice([0, 16, 32, 64], (traces, metrics)) * np.array(trend),
        "maximum": level,
    }


@examples(150)
@given(cluster=replays.flatmap(growing_clusters), data=st.data())
def test_counts_after_any_walk_equal_those_of_plain_python(cluster, data):
    """They are equal for replicas that are tried on a node as well; undoing the walk restores every sum."""
    configuration = configuration_of(cluster.engine())
    undo = []
    for proposal in data.draw(walks(configuration)):
        undo.append(configuration.apply(proposal))
        configuration.check()
        assert configuration.solution.violating.tolist() == counted_by_hand(configuration)
    for row in configuration.rows[:2].tolist():
        tried = configuration.violation_probabilities_with(row)
        for node in set(range(configuration.nodes)) - {configuration.node_of(row)}:
            back = configuration.apply(Proposal(row, node))
            assert tried[node] == configuration.violation_probabilities[node]
            configuration.apply(back)
    for proposal in reversed(undo):
        configuration.apply(proposal)
    configuration.check()


def counted_by_hand(configuration: Configuration) -> list[int]:
    """Return the number of repetitions in violation of each node, from curves evaluated at every departure."""
    problem, counts = configuration.problem, []
    for node in range(configuration.nodes):
        rows = configuration.rows_on(node).tolist()
        found = [k for k in range(problem.peak.shape[2]) if is_violating(configuration, node, rows, k)]
        counts.append(len(found) if problem.counted[node] else 0)
    return counts


def is_violating(configuration: Configuration, node: int, rows: list[int], k: int) -> bool:
    problem = configuration.problem
    left = {row: max(0.0, float(problem.lifetime[problem.trace[row, k]]) - problem.age[row]) for row in rows}
    ends = {row: min(time, problem.horizon) for row, time in left.items()}
    for metric, threshold in enumerate(problem.threshold[node].tolist()):
        for time in ends.values():
            there = [row for row in rows if ends[row] >= time]
            if sum(demand_by_hand(configuration, row, metric, k, time) for row in there) >= threshold:
                return True
    return False


def demand_by_hand(configuration: Configuration, row: int, metric: int, k: int, time: float) -> int:
    problem = configuration.problem
    level, initial, growth, _ = problem.curves[problem.trace[row, k], metric].astype(float)
    age, peak, unit = problem.age[row], int(problem.peak[row, metric, k]), problem.unit[metric]
    if not problem.grows[metric] or age + time >= growth:
        return peak
    if problem.anchored[row]:
        step = age // 600.0 * 600.0
        end = min(growth, step + problem.horizon)
        found = peak - math.floor(max(0.0, (level - initial) * (end - step - time) / growth) / unit + ROUNDING)
        name = configuration.description.metrics[metric].name
        largest = configuration.forecast_of(row).largest_demand.get(name, 0.0)
        grown = (level - initial) * time / growth
        assert problem.load[row, metric] + grown / unit - ROUNDING <= found < (largest + grown) / unit + 2.0 + ROUNDING
        return found
    return min(math.ceil((initial + (level - initial) * (age + time) / growth) / unit), peak)


@examples(80)
@given(cluster=growing_clusters(replay="as_recorded"))
def test_replicas_that_follow_their_traces_follow_equation_1(cluster):
    """Each repetition is enumerated at all whole times, not at the departures alone."""
    engine = cluster.engine()
    configuration = configuration_of(engine)
    problem, history = configuration.problem, engine._planner.demand_forecast.history
    assume(history is not None and (problem.horizon == math.inf or problem.horizon % 1.0 == 0.0))
    settings = {"last": problem.horizon, "quanta": (1.0 / np.array(problem.unit)).astype(int).tolist()}
    for node in np.flatnonzero(problem.counted).tolist():
        rows, limits = configuration.rows_on(node), problem.threshold[node].tolist()
        ages = problem.age[rows].astype(int).tolist()
        traces = problem.trace[rows].T.tolist()
        expected = sum(plain_timeline(history, each, ages, limits, **settings) for each in traces)
        assert configuration.solution.violating[node] == expected


@examples(80)
@given(data=st.data(), replay=replays)
def test_timeline_is_never_above_peak(data, replay):
    cluster = data.draw(growing_clusters(replay))
    exact = configuration_of(cluster.engine())
    changes = {"evaluation": "peak"} | ({"estimator": "monte-carlo"} if replay == "as_recorded" else {})
    upper = configuration_of(attrs.evolve(cluster, config=cluster.config | changes).engine())
    assert (exact.violation_probabilities <= upper.violation_probabilities).all()


@pytest.mark.parametrize(("evaluation", "expected"), [("peak", 1.0), ("timeline", 0.0)])
def test_tenant_that_leaves_before_others_grow_is_no_risk(evaluation, expected):
    """Two tenants need 60 of 100 each: one at once and for an hour, the other only after ten hours."""
    configuration = configuration_of(early_and_late(evaluation))
    assert configuration.violation_probabilities.tolist() == [expected]


def early_and_late(evaluation: str, **settings: Any) -> PlacementAndLoadBalancing:
    """Return an engine with two tenants on one node whose past tenants needed their peak at different times."""
    hour = 3600.0
    history = DemandHistory.from_columns(
        ["memory"],
        tenant_class=["early", "late"],
        role=[Role.INSTANCE] * 2,
        lifetime=[hour, 100 * hour],
        level=[[60.0], [60.0]],
        initial=[[60.0], [0.0]],
        growth=[[0.0], [10 * hour]],
        maximum=[[60.0], [60.0]],
    )
    config = PlbConfig(metrics=[Metric("memory")], evaluation=evaluation, **settings)
    engine = PlacementAndLoadBalancing(config, seed=0, history=history)
    engine.update_node(Node("n0", capacities={"memory": 100}))
    for name in ("early", "late"):
        engine.update_service(Service(name, stateful=False, tenant_class=name))
        engine.update_partition(Partition(name, service=name, replicas=[Replica(Role.INSTANCE, "n0")]))
    return engine


@examples(60)
@given(cluster=replays.flatmap(growing_clusters))
def test_plans_reach_the_energy_that_they_report(cluster):
    """Every delta evaluation of a search is checked against sums from scratch, and the energy of the plan as well."""
    engine = attrs.evolve(cluster, config=cluster.config | {"checks": "step"}).engine()
    plan = engine.refresh(0.0, budget=50)
    engine.apply(plan)
    if all(move.kind is MoveKind.MOVE for move in plan.moves):  # other roles and new replicas have other samples
        after = configuration_of(engine)
        found = after.solution.totals.expected_failovers / after.problem.peak.shape[2]
        assert plan.energy_after.expected_failovers == found


@examples(60)
@given(cluster=replays.flatmap(growing_clusters), data=st.data())
def test_term_of_expected_failovers_counts_departures(cluster, data):
    """Its total and its changes equal those of the engine; a proposal onto the replica's present node works as well."""
    configuration, term = configuration_of(cluster.engine()), built_in_term("expected_failovers")
    for proposal in data.draw(walks(configuration, steps=4)):
        before, change = term.total(configuration), term.delta(configuration, proposal)
        assert before == pytest.approx(configuration.violation_probabilities.sum())
        configuration.apply(proposal)
        assert term.total(configuration) == pytest.approx(before + change)
    for row in configuration.rows.tolist():
        if configuration.node_of(row) != NOWHERE:
            term.delta(configuration, Proposal(row, configuration.node_of(row)))


def test_time_alone_starts_balancing():
    """A tenant older than all past ones may leave at any time, so a placement without risk may become risky."""
    hour = 3600.0
    engine = early_and_late("timeline", w_failovers=5.0, w_overload=0.0, w_imbalance=0.0, replay="as_recorded")
    engine.update_node(Node("n1", capacities={"memory": 100}))
    for name in ("early", "late"):
        engine.report_load(name, "n0", {"memory": 5})
    assert engine.balance(now=0.0).moves == ()
    assert [move.source for move in engine.balance(now=20 * hour).moves] == ["n0"]
