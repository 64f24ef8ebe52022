"""Ctrl-C at any line of a call is never lost, and leaves the engine as before or after; so does any other error."""

from __future__ import annotations

import copy
import pickle
import signal
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import attrs
import numpy as np
import pytest

import plb
from plb import Application, Metric, Node, Partition, PlacementAndLoadBalancing, Plan, PlbConfig, Replica, Role, Service
from plb.state.arrays import Problem
from tests.planning.test_live_state import engine_with_growing_demand

from .fingerprint import snapshot
from .kept_arrays import check_kept

LOAD = {"cpu": 7}
ENGINE = str(Path(plb.__file__).parent)
COMPILER = str(Path(plb.__file__).parent / "compiler")
PLANNED = 15
"""After one interrupted change in so many the engine makes a plan, which takes longer than the change."""
SKIPPED = 23
"""Searches are interrupted at one line in so many."""

Call = Callable[[PlacementAndLoadBalancing], object]
PLANS: list[Plan] = []
"""The plan that is applied."""


@pytest.fixture(autouse=True)
def usual_handler() -> Iterator[None]:
    """Let Ctrl-C raise `KeyboardInterrupt`, as in a new process."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@cache
def is_interrupted(name: str) -> bool:
    """Return whether lines of a file are interrupted: all of the engine, but of its compiler only the interrupts."""
    return name.startswith(ENGINE) and (not name.startswith(COMPILER) or name.endswith("interrupts.py"))


class Lines:
    """Notes the lines of the engine that a call runs, and presses Ctrl-C at the place `pressed_at`, if it has any.

    `raises`: the error comes at this very line, where Ctrl-C may be kept waiting. `sent`: another signal than Ctrl-C.
    """

    def __init__(
        self, pressed_at: int | None = None, *, raises: bool = False, sent: signal.Signals = signal.SIGINT
    ) -> None:
        self.pressed_at, self.raises, self.sent = pressed_at, raises, sent
        self.seen: list[tuple[object, int]] = []

    def run(self, call: Callable[[], object]) -> None:
        """Make a call."""
        before = sys.gettrace()
        sys.settrace(self._trace_call)
        try:
            call()
        finally:
            sys.settrace(before)

    def _trace_call(self, frame: FrameType, _event: str, _: Any) -> Any:
        return self._trace if is_interrupted(frame.f_code.co_filename) else None

    def _trace(self, frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            self.seen.append((frame.f_code, frame.f_lineno))
            if len(self.seen) - 1 == self.pressed_at:
                sys.settrace(None)
                if self.raises:
                    raise KeyboardInterrupt
                signal.raise_signal(self.sent)
        return self._trace

    def places(self) -> list[int]:
        """Return where each line runs for the first time, and the last line."""
        first = {line: place for place, line in reversed([*enumerate(self.seen)])}
        return sorted({*first.values(), len(self.seen) - 1})


def engine_under_way(**settings: Any) -> PlacementAndLoadBalancing:
    """Return services with replicas on four nodes, of which one is drained by moves that are under way."""
    engine = PlacementAndLoadBalancing(PlbConfig(metrics=[Metric("cpu")], **settings))
    engine.update_nodes([*(Node(f"n{index}", capacities={"cpu": 100}) for index in range(4)), Node("spare", up=False)])
    engine.update_application(Application("a"))
    for name, application in (("s0", "a"), ("s1", None)):
        service = Service(name, target_replicas=3, default_load={"primary": LOAD}, application=application)
        engine.update_service(service)
        engine.update_partitions(Partition(f"{name}/{number}", service=name) for number in range(2))
    engine.update_service(Service("empty"))
    engine.apply(engine.place(budget=200))
    engine.drain_node("n1")
    engine.apply(engine.repair(budget=200), leaving=True)
    return engine


def changed_partition(engine: PlacementAndLoadBalancing, **changes: Any) -> Partition:
    """Return another description of a partition: a replica is lost, another moves, and roles are exchanged."""
    nodes = [replica.node for replica in engine.replicas("s1/0")[:3]]
    free = next(name for name in ("n0", "n1", "n2", "n3") if name not in nodes)
    replicas = [Replica(Role.PRIMARY, nodes[1]), Replica(Role.SECONDARY, nodes[0], leaving=True)]
    return Partition("s1/0", service="s1", replicas=[*replicas, Replica(Role.SECONDARY, free)], **changes)


def vacate(engine: PlacementAndLoadBalancing) -> None:
    """Let a replica leave the drained node."""
    names = ("s0/0", "s0/1", "s1/0", "s1/1")
    engine.vacate(next(name for name in names if any(one.leaving for one in engine.replicas(name))), "n1")


CALLS: dict[str, Call] = {
    "new node": lambda e: e.update_node(Node("new", capacities={"cpu": 3}), now=5.0),
    "known node": lambda e: e.update_node(Node("n0", capacities={"cpu": 200}), now=5.0),
    "several nodes": lambda e: e.update_nodes([Node("n0", up=False), Node("new"), Node("newer")]),
    "drain": lambda e: e.drain_node("n0"),
    "undrain": lambda e: e.undrain_node("n1"),
    "remove node": lambda e: e.remove_node("spare"),
    "new service": lambda e: e.update_service(Service("new", placement_constraint="Rack == 3", application="a")),
    "known service": lambda e: e.update_service(Service("s1", target_replicas=4, default_load={"secondary": LOAD})),
    "remove service": lambda e: e.remove_service("empty"),
    "new application": lambda e: e.update_application(Application("b", most_nodes=2)),
    "known application": lambda e: e.update_application(Application("a", node_capacity={"cpu": 90})),
    "remove application": lambda e: e.remove_application("a"),
    "new partition": lambda e: e.update_partition(Partition("s1/9", service="s1")),
    "new partition in transition": lambda e: e.update_partition(Partition("s1/9", service="s1", in_transition=True)),
    "known partition": lambda e: e.update_partition(changed_partition(e, missing=1)),
    "several partitions": lambda e: e.update_partitions([Partition("s0/9", service="s0"), changed_partition(e)]),
    "remove partition": lambda e: e.remove_partition("s1/0"),
    "upgraded domains": lambda e: e.update_upgraded_domains(["ud0"]),
    "load": lambda e: e.report_load("s1/0", e.replicas("s1/0")[0].node, {"cpu": 12}),
    "load of a role": lambda e: e.report_role_load("s1/0", Role.SECONDARY, {"cpu": 12}),
    "loads of secondaries": lambda e: e.report_secondary_loads("s1/0", {"n0": {"cpu": 5}, "n2": {"cpu": 6}}),
    "move cost": lambda e: e.report_move_cost("s1/0", "primary", "high"),
    "reset": lambda e: e.reset_load("s1/0"),
    "loads": lambda e: e.report_loads([0, 1, 3], [[3], [4], [5]]),
    "apply": lambda e: e.apply(PLANS[0]),
    "apply moves that begin": lambda e: e.apply(PLANS[0], leaving=True),
    "vacate": vacate,
    "configure": lambda e: e.configure(attrs.evolve(e.config, estimator="gaussian", w_failovers=0.1, w_imbalance=3.0)),
    "seed": lambda e: setattr(e, "seed", 9),
}


def engine_for(name: str) -> PlacementAndLoadBalancing:
    """Return an engine for a call; for `apply` one with a plan that adds, moves and drops replicas."""
    engine = engine_under_way()
    if name.startswith("apply"):
        engine.update_service(Service("s1", target_replicas=2))
        engine.update_service(Service("s0", target_replicas=4, application="a"))
        engine.undrain_node("n1")
        PLANS[:] = [engine.place(budget=200)]
    return engine


@pytest.mark.parametrize("name", CALLS)
def test_interrupted_change_is_made_or_not(name):
    """All tables and arrays are as before the call or as after it, and so is the next plan."""
    engine, call = engine_for(name), CALLS[name]
    call(copy.deepcopy(engine))  # compiles kernels
    made, lines = copy.deepcopy(engine), Lines()
    lines.run(lambda: call(made))
    before, after = snapshot(engine), snapshot(made)
    assert before != after
    plans = [copy.deepcopy(one).refresh(600.0, budget=60) for one in (engine, made)]
    data = pickle.dumps(engine)  # read faster than it is copied
    for count, place in enumerate(lines.places()):
        interrupted = pickle.loads(data)
        with pytest.raises(KeyboardInterrupt):
            Lines(place).run(lambda one=interrupted: call(one))
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        found = snapshot(interrupted)
        assert found in (before, after)
        if count % PLANNED == 0:
            check_kept(interrupted)
            assert interrupted.refresh(600.0, budget=60).moves == plans[found == after].moves


@pytest.mark.parametrize("sent", [signal.SIGALRM, signal.SIGTERM])
def test_change_is_made_or_not_at_the_end_of_a_time_limit(sent):
    """The handlers of other signals raise in some hosts."""

    def end(number: int, _: FrameType | None) -> None:
        raise TimeoutError(number)

    engine, call, lines = engine_under_way(), CALLS["remove partition"], Lines()
    made = copy.deepcopy(engine)
    lines.run(lambda: call(made))
    before, after, data = snapshot(engine), snapshot(made), pickle.dumps(engine)
    usual = signal.signal(sent, end)
    try:
        for place in lines.places():
            interrupted = pickle.loads(data)
            with pytest.raises(TimeoutError):
                Lines(place, sent=sent).run(lambda one=interrupted: call(one))
            assert snapshot(interrupted) in (before, after)
    finally:
        signal.signal(sent, usual)


def plan(engine: PlacementAndLoadBalancing) -> None:
    """Enter a slot of the past, fill the nodes of a service on every node, and search."""
    engine.refresh(7200.0, budget=60)


SEARCHES: dict[str, Call] = {
    "plan": plan,
    "queries": lambda e: (e.violations(), e.score("s1/9"), e.alternatives("s1/9"), e.violation_probabilities()),
}


@pytest.mark.parametrize("settings", [{}, {"one_action_per_refresh": True}], ids=["phases", "one action"])
@pytest.mark.parametrize("name", SEARCHES)
def test_interrupted_search_changes_nothing(name, settings):
    """The next plan is that of an engine that was not interrupted."""
    engine = engine_under_way(estimator="historical-simulation", w_failovers=0.1, **settings)
    engine.update_service(Service("agents", on_every_node=True, stateful=False))
    engine.update_partitions([Partition("agents/0", service="agents"), Partition("s1/9", service="s1")])
    engine.refresh(3600.0, budget=60)
    engine.update_node(Node("new", capacities={"cpu": 100}))
    engine.report_load("s1/0", engine.replicas("s1/0")[0].node, {"cpu": 50})
    call = SEARCHES[name]
    call(copy.deepcopy(engine))  # compiles kernels
    made, lines = copy.deepcopy(engine), Lines()
    lines.run(lambda: call(made))
    expected = copy.deepcopy(engine).refresh(7200.0, budget=60)
    data = pickle.dumps(engine)
    for place in lines.places()[::SKIPPED]:
        interrupted = pickle.loads(data)
        with pytest.raises(KeyboardInterrupt):
            Lines(place).run(lambda one=interrupted: call(one))
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        assert interrupted.refresh(7200.0, budget=60).moves == expected.moves
        check_kept(interrupted)


def engine_of_four() -> PlacementAndLoadBalancing:
    """Return four nodes with two replicas each, after a plan."""
    engine = PlacementAndLoadBalancing(PlbConfig(metrics=[Metric("cpu")], estimator="gaussian", w_failovers=0.1))
    engine.update_nodes(Node(f"n{index}", capacities={"cpu": 100}) for index in range(4))
    engine.update_service(Service("s", target_replicas=1))
    for index in range(8):
        engine.update_partition(Partition(f"p{index}", service="s", replicas=[Replica(Role.PRIMARY, f"n{index % 4}")]))
    engine.refresh(0.0)
    return engine


def differing(one: PlacementAndLoadBalancing, two: PlacementAndLoadBalancing, now: float) -> list[str]:
    """Return the arrays in which two engines differ; rows that expect no demand keep what they had."""
    these, those = ({**engine._planner.problem(now)._asdict()} for engine in (one, two))
    expecting = np.flatnonzero(one._state.rows.used & ~one._state.rows.leaving)
    for name in ("peak", "peak_ceiling", "trace"):
        these[name], those[name] = (of[name][expecting] if len(of[name]) else of[name] for of in (these, those))
    return [name for name in Problem._fields if not np.array_equal(these[name], those[name])]


@pytest.mark.parametrize(
    ("made", "change", "now"),
    [
        (engine_of_four, lambda e: e.report_load("p0", "n0", {"cpu": 30}), 0.0),
        (engine_of_four, lambda e: e.update_node(Node("n0", capacities={"cpu": 100}, up=False)), 0.0),
        (engine_of_four, lambda e: e.update_service(Service("s", target_replicas=1, limits={"cpu": 50})), 0.0),
        (engine_with_growing_demand, lambda e: e.report_load("p", "n0", {"cpu": 20}), 700.0),
    ],
    ids=["load", "node", "limit", "time"],
)
def test_change_is_followed_after_an_error_at_any_line(made, change, now):
    """A reported load, a node that goes down, another limit of a service, and demand that grows in time."""
    engine = made()
    engine._planner.problem(0.0)
    change(engine)
    copy.deepcopy(engine)._planner.problem(now)  # compiles kernels
    right, lines = copy.deepcopy(engine), Lines()
    lines.run(lambda: right._planner.problem(now))
    right.violations()
    loads, moves = right.node_loads(), right.repair(now=700.0, budget=60).moves
    data = pickle.dumps(engine)
    for count, place in enumerate(lines.places()):
        stopped = pickle.loads(data)
        with pytest.raises(KeyboardInterrupt):
            Lines(place, raises=True).run(lambda one=stopped: one._planner.problem(now))
        assert stopped.node_loads() == loads, place
        assert differing(stopped, right, now) == [], place
        if count % PLANNED == 0:
            assert stopped.repair(now=700.0, budget=60).moves == moves, place
