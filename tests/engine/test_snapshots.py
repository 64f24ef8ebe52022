"""An engine from a snapshot continues as the engine that was never stopped, once that forgets where searches ended."""

from __future__ import annotations

import pytest
from hypothesis import settings as settings_of_hypothesis
from hypothesis import strategies as st
from hypothesis.stateful import rule, run_state_machine_as_test

from plb import Node
from plb.model.outcome import Idle

from .stories import engine_with
from .strategies import examples
from .test_state_machine import EngineMachine, host_actions
from .twins import TwinWorld, check_same_arrays, check_same_state, restored, settings_with_forecasts
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


@pytest.mark.parametrize("steps", [1, 2, 3, 5])
def test_throttles_and_delays_continue(steps):
    """One action for each refresh, with its intervals, throttles and moves under way, at any moment of the story."""
    settings = {
        "one_action_per_refresh": True,
        "global_movement_throttle_threshold": 2,
        "movement_per_partition_throttle_threshold": 1,
        "min_load_balancing_interval": 10.0,
        "balancing_delay_after_new_node": 5.0,
        "max_movement_execution_time": 100.0,
    }
    replicas = {f"w{index}": (f"n{index % 2}", 5.0 + index) for index in range(4)}
    engine = engine_with({f"n{index}": 100 for index in range(3)}, replicas, **settings)
    engine.update_node(Node("n3", capacities={"cpu": 100}), now=3.0)
    seen = set()
    for step in range(8):
        if step == steps:
            twin = restored(engine)
            check_same_state(engine, twin)
        now = 4.0 * step
        plan = engine.refresh(now)
        seen |= {*plan.outcomes[0].idle.values()}
        engine.apply(plan)
        if step >= steps:
            assert twin.refresh(now) == plan
            twin.apply(plan)
            check_same_state(engine, twin)
    assert seen & {Idle.NODE_EVENT, Idle.UNDER_WAY, Idle.THROTTLED, Idle.PARTITIONS_THROTTLED, Idle.NOT_DUE}
