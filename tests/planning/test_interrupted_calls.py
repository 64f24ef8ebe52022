"""Calls that end in an error at any line, as by Ctrl-C, lose nothing: the next calls are as if they had never been."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import plb
from plb import Metric, Node, Partition, PlacementAndLoadBalancing, PlbConfig, Replica, Role, Service
from plb.planning import live_state
from plb.state.arrays import Problem
from plb.testing import all_clusters
from tests.engine.kept_arrays import check_kept
from tests.engine.strategies import examples
from tests.planning.test_live_state import EVENTS, engine_with_growing_demand, make

ENGINE = str(Path(plb.__file__).parent)
WITHOUT_INTERRUPTS = str(Path(plb.__file__).parent / "compiler")
"""Ctrl-C waits there."""


class Interrupts:
    """Counts the lines of the engine that are run, and interrupts the run at one of them.

    Parameters
    ----------
    at
        The line, from 1; None: never.
    """

    def __init__(self, at: int | None = None) -> None:
        self.lines = 0
        self.at = at

    def run(self, call: Callable[[], object]) -> bool:
        """Return whether a call ended without an interrupt."""
        before = sys.gettrace()
        sys.settrace(self._trace)
        try:
            call()
        except KeyboardInterrupt:
            return False
        finally:
            sys.settrace(before)
        return True

    def _trace(self, frame: FrameType, event: str, _: Any) -> Any:
        name = frame.f_code.co_filename
        if not name.startswith(ENGINE) or name.startswith(WITHOUT_INTERRUPTS):
            return None
        if event == "line":
            self.lines += 1
            if self.lines == self.at:
                raise KeyboardInterrupt
        return self._trace


def differing(one: PlacementAndLoadBalancing, two: PlacementAndLoadBalancing, now: float) -> list[str]:
    """Return the arrays in which two engines differ; rows that expect no demand keep what they had."""
    these, those = ({**engine._planner.problem(now)._asdict()} for engine in (one, two))
    expecting = np.flatnonzero(one._state.rows.used & ~one._state.rows.leaving)
    for name in ("peak", "peak_ceiling", "trace"):
        these[name], those[name] = (of[name][expecting] if len(of[name]) else of[name] for of in (these, those))
    return [name for name in Problem._fields if not np.array_equal(these[name], those[name])]


@examples(150)
@given(all_clusters(), st.lists(st.sampled_from(EVENTS), min_size=1, max_size=6), st.data())
def test_interrupted_update_loses_nothing(cluster, events, data):
    """The arrays of an engine are those of one that was not interrupted, and so are its plans."""
    engine, other = (cluster.engine(w_failovers=0.1) for _ in range(2))
    now = 0.0
    for event in events:
        now += data.draw(st.sampled_from([0.0, 599.0, 4000.0])) if event == "wait" else 0.0
        make(engine, cluster, event, now)
        make(other, cluster, event, now)
        counted = Interrupts()
        assert counted.run(lambda at=now: other._planner.problem(at))
        if data.draw(st.booleans()):
            interrupts = Interrupts(data.draw(st.integers(1, counted.lines)))
            interrupts.run(lambda at=now: engine._planner.problem(at))
    assert differing(engine, other, now) == []
    check_kept(engine)
    assert engine.repair(now=now, budget=60).moves == other.repair(now=now, budget=60).moves


def test_expected_demand_is_right_after_an_interrupt_at_any_line():
    """A replica with a report has peaks of its own, and one whose time has come has later ones."""
    right = engine_with_growing_demand()
    right._planner.problem(0.0)
    right.report_load("p", "n0", {"cpu": 20})
    counted = Interrupts()
    assert counted.run(lambda: right._planner.problem(700.0))
    assert counted.lines > 100
    for line in range(1, counted.lines + 1):
        engine = engine_with_growing_demand()
        engine._planner.problem(0.0)
        engine.report_load("p", "n0", {"cpu": 20})
        assert not Interrupts(line).run(lambda one=engine: one._planner.problem(700.0))
        assert differing(engine, right, 700.0) == [], line


def engine_of_four() -> PlacementAndLoadBalancing:
    """Return four nodes with two replicas each, after a plan."""
    engine = PlacementAndLoadBalancing(PlbConfig(metrics=[Metric("cpu")], estimator="gaussian", w_failovers=0.1))
    for index in range(4):
        engine.update_node(Node(f"n{index}", capacities={"cpu": 100}))
    engine.update_service(Service("s", target_replicas=1))
    for index in range(8):
        engine.update_partition(Partition(f"p{index}", service="s", replicas=[Replica(Role.PRIMARY, f"n{index % 4}")]))
    engine.refresh(0.0)
    return engine


@pytest.mark.parametrize("change", ["load", "node", "limit"])
def test_change_is_followed_after_an_interrupt_at_any_line(change):
    """A reported load, a node that goes down, and another limit of a service."""

    def changed() -> PlacementAndLoadBalancing:
        engine = engine_of_four()
        if change == "load":
            engine.report_load("p0", "n0", {"cpu": 30})
        elif change == "node":
            engine.update_node(Node("n0", capacities={"cpu": 100}, up=False))
        else:
            engine.update_service(Service("s", target_replicas=1, limits={"cpu": 50}))
        return engine

    right, counted = changed(), Interrupts()
    assert counted.run(right.violations)
    loads, moves = right.node_loads(), right.repair(now=700.0, budget=60).moves
    for line in range(1, counted.lines + 1):
        engine = changed()
        assert not Interrupts(line).run(engine.violations)
        assert engine.node_loads() == loads, line
        assert differing(engine, right, 0.0) == [], line
        assert engine.repair(now=700.0, budget=60).moves == moves, line


def test_engine_works_again_after_memory_was_short(monkeypatch):
    """The sums of a new engine do not fit, then they do."""
    engine = PlacementAndLoadBalancing(PlbConfig(metrics=[Metric("cpu")]))
    engine.update_node(Node("n0", capacities={"cpu": 4}))

    def short(*_):
        raise MemoryError

    with monkeypatch.context() as context:
        context.setattr(live_state, "solution_from_scratch", short)
        for _ in range(2):
            with pytest.raises(MemoryError):
                engine.node_loads()
    assert engine.node_loads() == {"n0": {"cpu": 0.0}}
