"""An engine from a snapshot, a copy or a pickle continues as the engine that was never stopped; they share nothing."""

from __future__ import annotations

import copy
import pickle

import pytest
from hypothesis import given
from hypothesis import settings as settings_of_hypothesis
from hypothesis import strategies as st
from hypothesis.stateful import rule, run_state_machine_as_test

from plb.testing import all_clusters

from .fingerprint import snapshot
from .strategies import examples
from .test_state_machine import EngineMachine, host_actions
from .twins import TwinWorld, check_same_arrays, settings_with_forecasts
from .whole_strategies import budgets


class RestartMachine(EngineMachine):
    """Random events in two engines, of which one is stopped and continued from a snapshot of the other."""

    world: TwinWorld
    world_kind = TwinWorld
    settings_kind = staticmethod(settings_with_forecasts)

    @rule()
    def restart(self) -> None:
        """Stop one engine."""
        self.world.restart()

    @rule()
    def query(self) -> None:
        """Compare all arrays and the reports of the engines."""
        check_same_arrays(self.world.one, self.world.two, self.now)

    @rule(forth=st.sampled_from([0.0, 250.0, 600.0, 2000.0, 90_000.0, -700.0]), budget=budgets, then=host_actions)
    def refresh_later(self, forth: float, budget: int | None, then: str) -> None:
        """Let more time pass, and run the phases that are due."""
        self.refresh(forth, budget, then)

    @rule(budget=budgets)
    def stop_between_plans(self, budget: int | None) -> None:
        """Stop one engine after balancing, and balance again."""
        self.balance(budget, "apply")
        self.world.restart()
        self.repair(budget, "ignore")
        self.balance(budget, "ignore")

    def engines_agree(self) -> None:
        """Compare nothing: queries would bring the arrays up to date, so that `query` has to be chosen."""

    def kept_arrays_equal_those_from_scratch(self) -> None:
        """Compare nothing, for the same reason."""

    def teardown(self) -> None:
        """Compare the engines at the end."""
        if hasattr(self, "world"):
            self.world.restart()
            self.query()


@pytest.mark.parametrize("count", [30, pytest.param(600, marks=pytest.mark.slow)])
def test_a_restart_changes_no_later_plan(count):
    options = settings_of_hypothesis(examples(count), stateful_step_count=25)
    run_state_machine_as_test(RestartMachine, settings=options)


WAYS = {"copied": copy.deepcopy, "pickled": lambda engine: pickle.loads(pickle.dumps(engine))}


@examples(30)
@given(all_clusters(), st.sampled_from(sorted(WAYS)), st.integers(0, 2))
def test_twin_makes_the_same_plans(cluster, way, plans):
    """The plans are equal after any number of earlier plans, and stay equal."""
    engine = cluster.engine()
    for now in range(plans):
        engine.apply(engine.refresh(float(now), budget=60))
    twin = WAYS[way](engine)
    assert snapshot(twin) == snapshot(engine)
    for now in (10.0, 20.0):
        plan = engine.refresh(now, budget=60)
        assert twin.refresh(now, budget=60) == plan
        engine.apply(plan)
        twin.apply(plan)


@pytest.mark.parametrize("way", WAYS)
def test_twin_shares_nothing_that_changes(way, small_cluster):
    """A report to one engine does not change the other."""
    engine = small_cluster.engine()
    engine.refresh(0.0, budget=40)
    twin = WAYS[way](engine)
    before = snapshot(engine)
    twin.report_load("db/0", "n0", {"cpu": 9})
    twin.remove_partition("web/0")
    twin.refresh(5.0, budget=40)
    assert snapshot(engine) == before


def test_descriptions_stay_read_only(small_cluster):
    node = copy.deepcopy(small_cluster.nodes[0])
    assert node == small_cluster.nodes[0]
    with pytest.raises(TypeError):
        node.capacities["cpu"] = 3
