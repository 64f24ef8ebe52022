"""Historical simulation in an engine: the past of the replicas together gives the probability of a violation."""

from __future__ import annotations

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plb import Metric, Node, Partition, PlacementAndLoadBalancing, PlbConfig, Replica, Role, Service
from plb.errors import ConflictError, InvalidValueError
from plb.risk import DemandHistory
from plb.state.demand_sources import HistoricalForecast
from tests.engine.strategies import examples

NODES = ("n0", "n1")
SLOTS, MINUTES, HORIZON = 5, 480, 2
"""Slots of eight hours, so that a day has three."""
DAY = 3
SMOOTHING = 1.5
ESTIMATOR = (
    f"historical-simulation:slots={SLOTS},slot_minutes={MINUTES},horizon={HORIZON},"
    f"persistence={0.5 ** (60 / MINUTES)!r},smoothing={SMOOTHING}"
)
"""Half of a lead is left after a slot."""
CAPACITY = 20.0


def new_engine(history: DemandHistory | None = None, **settings: object) -> PlacementAndLoadBalancing:
    """Return an engine with two nodes and a service of single instances."""
    metrics = [Metric("cpu", quantum=1.0, violation_threshold=1.0)]
    config = PlbConfig(metrics=metrics, **{"estimator": ESTIMATOR, **settings})
    engine = PlacementAndLoadBalancing(config, history=history)
    for name in NODES:
        engine.update_node(Node(name, capacities={"cpu": CAPACITY}))
    load = {Role.INSTANCE: {"cpu": 7.0}}
    engine.update_service(Service("web", stateful=False, target_replicas=1, default_load=load, tenant_class="gold"))
    return engine


def put(engine: PlacementAndLoadBalancing, name: str, node: str) -> None:
    engine.update_partition(Partition(name, service="web", replicas=[Replica(Role.INSTANCE, node)]))


def hours(number: float) -> float:
    """Return seconds."""
    return 3600.0 * number


class ByHand:
    """What each partition has shown, as lists of slots, the newest last."""

    def __init__(self) -> None:
        self.node: dict[str, str] = {}
        self.load: dict[str, float | None] = {}
        self.slots: dict[str, list[float | None]] = {}
        self.newest: int | None = None

    def put(self, name: str, node: str) -> None:
        self.node[name], self.load[name], self.slots[name] = node, None, [None] * SLOTS

    def remove(self, name: str) -> None:
        for one in (self.node, self.load, self.slots):
            one.pop(name)

    def plan(self, now: float) -> None:
        """Enter the loads as those of the present slot, if it is a new one."""
        slot = int(now // (60 * MINUTES))
        if self.newest is not None and slot <= self.newest:
            return
        passed = 1 if self.newest is None else slot - self.newest
        for name, slots in self.slots.items():
            self.slots[name] = [*slots, *[None] * (passed - 1), self.load[name]][-SLOTS:]
        self.newest = slot

    def column(self, name: str) -> list[float]:
        """Return what stands for the demand of a partition in each slot."""
        slots, load = self.slots[name], self.load[name]
        lived = [value for value in reversed(slots) if value is not None]
        found = []
        for at in range(SLOTS):
            later = [slots[same] for same in range(at, SLOTS, DAY) if slots[same] is not None]
            age = SLOTS - 1 - at
            found.append(later[0] if later else lived[age % len(lived)] if lived else 7.0 if load is None else load)
        return found

    def sums(self, node: str) -> list[float]:
        """Return the demand of the replicas on a node in each slot."""
        columns = [self.column(name) for name, at in self.node.items() if at == node]
        return [sum(of_slot) for of_slot in zip(*columns, strict=True)] if columns else [0.0] * SLOTS

    def share(self, node: str) -> float:
        """Return the share of the windows with a slot in which the node has no room left."""
        sums = self.sums(node)
        bad = [max(sums[first : first + HORIZON]) >= CAPACITY for first in range(SLOTS - HORIZON + 1)]
        return sum(bad) / len(bad)

    def present(self, node: str) -> float:
        """Return the present demand of the replicas on a node; of one without a report, that of the newest slot."""
        here = [name for name, at in self.node.items() if at == node]
        loads = [(self.load[name], self.column(name)[-1]) for name in here]
        return sum(newest if load is None else load for load, newest in loads)

    def share_from_now(self, node: str, horizon: int) -> float:
        """Return the same for windows that begin with the present demand, half of whose lead is left in each slot.

        Of the window of the oldest slots it is not known with which demand it began.
        """
        sums, bad = self.sums(node), 0
        for first in range(SLOTS - horizon + 1):
            lead = self.present(node) - sums[first - 1] if first else 0.0
            bad += any(sums[first + later] + lead * 0.5 ** (later + 1) >= CAPACITY for later in range(horizon))
        return bad / (SLOTS - horizon + 1)

    def probability(self, node: str, horizon: int) -> float:
        """Return the smoothed share: a window of all nodes for each of the node."""
        shares = {one: self.share_from_now(one, horizon) for one in NODES if one in self.node.values()}
        if node not in shares:
            return 0.0
        independent = SLOTS / horizon
        mean = sum(shares.values()) / len(shares)
        return (independent * shares[node] + SMOOTHING * mean) / (independent + SMOOTHING)


events = st.one_of(
    st.tuples(st.just("report"), st.integers(0, 4), st.integers(0, 16)),
    st.tuples(st.just("plan"), st.sampled_from([0, 1, 4, 8, 17, 41]), st.just(0)),
    st.tuples(st.just("put"), st.integers(0, 4), st.integers(0, 1)),
    st.tuples(st.just("remove"), st.integers(0, 4), st.just(0)),
    st.tuples(st.just("forget"), st.integers(0, 4), st.just(0)),
)


@examples(100)
@given(st.lists(events, min_size=5, max_size=40))
def test_probability_is_the_share_of_the_windows_of_the_past_in_which_the_node_is_full(happened):
    """Whatever is reported, comes, goes or passes: columns, sums and windows are as computed by hand."""
    engine, right, now = new_engine(), ByHand(), 0.0
    for kind, number, value in happened:
        name = f"web/{number}"
        if kind == "plan":
            now += hours(number)
        elif kind == "put" and name not in right.node:
            put(engine, name, NODES[value])
            right.put(name, NODES[value])
        elif name not in right.node:
            continue
        elif kind == "report":
            engine.report_load(name, right.node[name], {"cpu": float(value)})
            right.load[name] = float(value)
        elif kind == "remove":
            engine.remove_partition(name)
            right.remove(name)
        elif kind == "forget":
            engine.reset_load(name)
            right.put(name, right.node[name])
        if kind == "plan":
            engine.refresh(now)
            right.plan(now)
        for horizon, within in ((HORIZON, None), (1, hours(8)), (SLOTS, hours(8 * SLOTS - 1))):
            found = engine.violation_probabilities(now, within=within)
            assert found == pytest.approx({node: right.probability(node, horizon) for node in NODES})
        problem = engine._planner.problem(now)
        counted = engine._planner.start(problem).violating / (SLOTS - HORIZON + 1)
        assert counted.tolist() == [right.share(node) for node in NODES]
        check_columns_from_scratch(engine)


def check_columns_from_scratch(engine: PlacementAndLoadBalancing) -> None:
    """Compare the kept columns with those of a new forecast for the same past."""
    kept, state, now = engine._planner.demand_forecast, engine._state, engine._planner.now
    made = HistoricalForecast(engine.config, kept._estimator, kept.history, kept.seed)
    made.find_due(state, now)
    made.renew(state)
    rows = np.flatnonzero(state.rows.used)
    assert np.array_equal(made.peak[rows], kept.peak[rows])
    assert np.array_equal(made.peak_ceiling[rows], kept.peak_ceiling[rows])
    assert np.array_equal(made.windows, kept.windows)


def shown_for_two_days(loads: list[float]) -> tuple[PlacementAndLoadBalancing, float]:
    """Return an engine with an instance that has reported these loads, one a slot, and the time afterwards."""
    engine = new_engine()
    put(engine, "web/0", "n0")
    for number, load in enumerate(loads):
        engine.report_load("web/0", "n0", {"cpu": load})
        engine.refresh(hours(8 * number))
    return engine, hours(8 * (len(loads) - 1))


def test_replica_without_a_report_follows_the_traces_of_past_tenants():
    """Its class has shown 30 in the past, more than a node has; its own report, 5, takes their place."""
    curve = {"initial": [[30.0]], "growth": [[0.0]], "level": [[30.0]], "maximum": [[30.0]]}
    history = DemandHistory.from_columns(
        ["cpu"], tenant_class=["gold"], role=[Role.INSTANCE], lifetime=[hours(1000)], **curve
    )
    engine = new_engine(history)
    put(engine, "web/0", "n0")
    assert engine.violation_probabilities(0.0)["n0"] == 1.0
    engine.report_load("web/0", "n0", {"cpu": 5.0})
    assert engine.violation_probabilities(0.0)["n0"] == 0.0


def test_past_of_a_replica_moves_with_it():
    engine, now = shown_for_two_days([25.0, 1.0, 1.0] * 2)
    before = engine.violation_probabilities(now)
    engine.update_partition(Partition("web/0", service="web", replicas=[Replica(Role.INSTANCE, "n1")]))
    assert engine.violation_probabilities(now) == {"n0": before["n1"], "n1": before["n0"]}


@pytest.mark.parametrize("passed", [-24.0, 0.0, 8.0, 10_000.0])
def test_questions_at_any_time_change_nothing(passed):
    engine, now = shown_for_two_days([9.0, 8.0, 7.0, 6.0])
    engine.update_partition(Partition("new", service="web"))
    engine.violation_probabilities(now)
    before = engine.snapshot()
    engine.violation_probabilities(now + hours(passed))
    engine.alternatives("web/0", now=now + hours(passed))
    engine.score("new", now=now + hours(passed))
    engine.violation_probabilities(now)
    assert engine.snapshot() == before


def test_slot_is_entered_without_any_replica():
    """The windows begin with its successor, also while there is nothing to plan."""
    engine = new_engine()
    put(engine, "web/0", "n0")
    engine.violation_probabilities(0.0)
    engine.remove_partition("web/0")
    engine.violation_probabilities(0.0)
    engine.refresh(0.0)
    assert engine._state.rows.past.newest == 0
    check_columns_from_scratch(engine)


def test_plan_at_an_earlier_time_enters_no_slot():
    engine, now = shown_for_two_days([9.0, 8.0, 7.0, 6.0])
    before = engine._state.rows.past.values.copy()
    engine.refresh(now - hours(16))
    assert np.array_equal(engine._state.rows.past.values, before)


def test_past_begins_anew_after_a_wrong_time():
    """A time in milliseconds loses what was kept, but slots are entered again at the right time."""
    engine, now = shown_for_two_days([25.0] * 6)
    engine.refresh(1000.0 * now)
    engine.report_load("web/0", "n0", {"cpu": 3.0})
    engine.refresh(now + hours(8))
    assert sorted(engine._state.rows.past.values[0, 0].tolist()) == [-1] * (SLOTS - 1) + [3]
    assert engine.violation_probabilities(now + hours(8))["n0"] == 0.0


def test_slots_that_were_forgotten_leave_no_columns():
    """After a reset, a report of the same load as before stands for all slots."""
    engine, now = shown_for_two_days([25.0, 25.0, 25.0, 4.0])
    assert engine.violation_probabilities(now)["n0"] > 0.0
    engine.reset_load("web/0")
    engine.report_load("web/0", "n0", {"cpu": 4.0})
    assert engine.violation_probabilities(now)["n0"] == 0.0


def test_plan_that_fails_enters_no_slot():
    """Its loads would be too large for the sums of a node; smaller reports make the engine usable again."""
    engine = new_engine()
    for name in ("web/0", "web/1", "web/2"):
        put(engine, name, "n0")
        engine.report_load(name, "n0", {"cpu": 1.0})
    engine.refresh(0.0)
    for name in ("web/0", "web/1", "web/2"):
        engine.report_load(name, "n0", {"cpu": 1.9e9})
    before = engine._state.rows.past.values.copy()
    with pytest.raises(InvalidValueError):
        engine.refresh(hours(8))
    assert np.array_equal(engine._state.rows.past.values, before)
    for name in ("web/0", "web/1", "web/2"):
        engine.report_load(name, "n0", {"cpu": 1.0})
    engine.refresh(hours(8))
    assert engine.violation_probabilities()["n0"] == 0.0


def test_balancing_sees_that_the_past_has_changed():
    """A search that found no move is repeated after a new slot, as other sums may be at risk."""
    whole = "historical-simulation:slots=4,slot_minutes=480,horizon=1,persistence=0,smoothing=0"
    engine = new_engine(estimator=whole, w_failovers=100.0, w_imbalance=0.0, w_overload=0.0, max_percentage_to_move=1.0)
    put(engine, "web/0", "n0")
    put(engine, "web/1", "n0")
    apart = [(15.0, 1.0), (1.0, 15.0), (1.0, 1.0), (1.0, 1.0)]
    together = [(15.0, 15.0)] * 3 + [(1.0, 1.0)]
    for slot, loads in enumerate([*apart, *together]):
        for name, load in zip(("web/0", "web/1"), loads, strict=True):
            engine.report_load(name, "n0", {"cpu": load})
        plan = engine.balance(now=hours(8 * slot))
        assert bool(plan.moves) == (slot >= len(apart)), slot


def test_probability_with_a_new_replica_is_smoothed_to_the_nodes_as_they_are():
    """The replica stands on one node, so the mean of all is the present one: 0."""
    smooth = ESTIMATOR.replace(f"smoothing={SMOOTHING}", "smoothing=2.5")
    engine = new_engine(estimator=smooth)
    put(engine, "web/0", "n0")
    engine.report_load("web/0", "n0", {"cpu": 14.0})
    engine.refresh(0.0)
    engine.update_partition(Partition("new", service="web"))
    assert engine.violation_probabilities(partition="new") == {"n0": 0.5, "n1": 0.0}


def test_demand_beyond_31_bits_is_a_violation():
    engine = new_engine()
    for node in NODES:
        engine.update_node(Node(node, capacities={"cpu": 1.5e9}))
    load = {Role.INSTANCE: {"cpu": 1.0e9}}
    engine.update_service(Service("web", stateful=False, target_replicas=1, default_load=load))
    put(engine, "web/0", "n0")
    put(engine, "web/1", "n0")
    for name in ("web/0", "web/1"):
        engine.report_load(name, "n0", {"cpu": 1.0e9})
    engine.refresh(0.0)
    engine.update_partition(Partition("new", service="web"))
    assert engine.violation_probabilities(partition="new")["n0"] > 0.5


def test_only_replicas_with_a_node_have_a_past():
    engine = new_engine()
    put(engine, "web/0", "n0")
    engine.report_load("web/0", "n0", {"cpu": 9.0})
    engine.refresh(0.0)
    engine.update_partition(Partition("web/0", service="web", missing=1))
    engine.refresh(hours(8))
    assert (engine._state.rows.past.values[:, 0, 1] == -1).all()


def test_slots_of_another_length_begin_anew():
    """What was kept in slots of eight hours says nothing about slots of one hour."""
    engine, now = shown_for_two_days([25.0, 1.0, 1.0] * 2)
    assert engine.violation_probabilities(now)["n0"] > 0.0
    changed = ESTIMATOR.replace(f"slot_minutes={MINUTES}", "slot_minutes=60")
    engine.configure(attrs.evolve(engine.config, estimator=changed))
    assert engine.violation_probabilities(now)["n0"] == 0.0  # the present load is 1


def test_engine_without_weight_on_risk_keeps_no_columns():
    engine = new_engine(w_failovers=0.0, w_overload=0.0)
    put(engine, "web/0", "n0")
    engine.refresh(0.0)
    assert engine._planner.demand_forecast.peak.nbytes == 0


def test_only_historical_simulation_has_a_horizon_to_choose():
    """A horizon longer than the slots that are kept is refused, and any horizon by other estimators."""
    engine = new_engine()
    with pytest.raises(InvalidValueError, match=r"within = 144001\.0 .* at most 144000 seconds"):
        engine.violation_probabilities(within=hours(8 * SLOTS) + 1.0)
    with pytest.raises(InvalidValueError, match="within"):
        engine.violation_probabilities(within=0.0)
    with pytest.raises(ConflictError, match=r"within = 60\.0"):
        new_engine(estimator="gaussian").violation_probabilities(within=60.0)


@pytest.mark.parametrize("text", ["slots=0", "horizon=0", "horizon=169", "slot_minutes=0", "slot_minutes=1000", "n=3"])
def test_parameters_out_of_range_are_refused(text):
    with pytest.raises(Exception, match=r"historical-simulation|predictor") as caught:
        PlbConfig(metrics=[Metric("cpu")], estimator=f"historical-simulation:{text}")
    assert text.split("=")[0] in str(caught.value)


def test_a_past_that_is_reported_by_time_is_as_one_of_plans() -> None:
    known, lived = new_engine(), new_engine()
    for engine in (known, lived):
        for name, node in (("p0", "n0"), ("p1", "n1")):
            put(engine, name, node)
    for slot in range(-3, 4):
        loads = [[float(5 + slot)], [float(9 - slot)]]
        now = hours(slot * MINUTES / 60)
        known.report_loads([0, 1], loads, at=now)
        lived.report_loads([0, 1], loads)
        lived.refresh(now)
    assert known.violation_probabilities(now=now) == lived.violation_probabilities(now=now)
    assert (known._state.rows.past.values == lived._state.rows.past.values).all()


def test_a_past_that_is_reported_too_late_changes_nothing() -> None:
    engine = new_engine()
    put(engine, "p0", "n0")
    engine.report_loads([0], [[5.0]], at=hours(8))
    with pytest.raises(ConflictError, match="before the latest call"):
        engine.report_loads([0], [[6.0]], at=hours(7))
    assert engine.node_loads()["n0"]["cpu"] == 5.0
