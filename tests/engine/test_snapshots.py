"""An engine from a snapshot continues exactly as the engine that was never stopped."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import rule, run_state_machine_as_test

from plb import Role

from .strategies import examples
from .test_state_machine import EngineMachine, host_actions, some_partition
from .twins import TwinWorld, check_same_arrays, settings_with_forecasts
from .whole_strategies import budgets, loads_of_a_replica


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

    @rule(name=some_partition, loads=st.lists(loads_of_a_replica, min_size=2, max_size=2), budget=budgets)
    def stop_between_reports(self, name: str, loads: list[float], budget: int | None) -> None:
        """Stop one engine between two reports after balancing, and balance again."""
        self.balance(budget, "apply")
        before = self._load_of(name)
        self.report_role_load(name, Role.INSTANCE, loads[0])
        self.report_role_load(name, Role.PRIMARY, loads[0])
        self.world.restart()
        back = loads[1] if before is None else before
        self.report_role_load(name, Role.INSTANCE, back)
        self.report_role_load(name, Role.PRIMARY, back)
        self.repair(budget, "ignore")
        self.balance(budget, "ignore")

    def _load_of(self, name: str) -> float | None:
        """Return the load of the first replica of a partition."""
        state = self.world.one._state
        if name not in self.world.partitions or not state.partitions[name].rows:
            return None
        return float(state.rows.load[state.partitions[name].rows[0], -1])

    def engines_agree(self) -> None:
        """Compare nothing: queries would bring the arrays up to date, so that `query` has to be chosen."""

    def kept_arrays_equal_those_from_scratch(self) -> None:
        """Compare nothing, for the same reason."""

    def teardown(self) -> None:
        """Compare the engines at the end."""
        if hasattr(self, "world"):
            self.world.restart()
            self.query()


def run(count: int) -> None:
    """Run the machine with this number of examples."""
    options = settings(examples(count), stateful_step_count=25)
    run_state_machine_as_test(RestartMachine, settings=options)


def test_a_restart_changes_no_later_plan():
    """The examples are short runs of many clusters."""
    run(30)


@pytest.mark.slow
def test_a_restart_changes_no_later_plan_in_many_more_runs():
    """The test has twenty times as many examples."""
    run(600)
