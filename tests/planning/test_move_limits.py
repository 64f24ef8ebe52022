"""Limits of the moves of balancing in an interval hold over all plans, whether a refresh has one action or all."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plb.model.move import Phase
from plb.model.outcome import Idle
from tests.engine.stories import engine_with

NODES = {f"n{number}": 100.0 for number in range(4)}
INTERVAL = 3600.0


@settings(max_examples=40, deadline=None)
@given(
    limit=st.integers(1, 4),
    steps=st.lists(st.tuples(st.sampled_from([0.0, 600.0, 1800.0, 3600.0]), st.booleans()), min_size=1, max_size=8),
    one_action=st.booleans(),
)
def test_no_interval_has_more_moves_than_its_limit(limit: int, steps, one_action: bool) -> None:
    """Loads change before each plan, which `refresh` or `balance` makes."""
    engine = engine_with(
        NODES,
        {f"p{number}": (f"n{number % 2}", 5.0) for number in range(16)},
        global_movement_throttle_threshold_for_balancing=limit,
        global_movement_throttle_counting_interval=INTERVAL,
        one_action_per_refresh=one_action,
    )
    now, made = 0.0, []
    for step, (wait, refreshes) in enumerate(steps):
        now += wait
        rows = [engine.replicas(f"p{number}")[0].index for number in range(16)]
        engine.report_loads(rows, [[1.0 + (number * 7 + step * 5) % 9] for number in range(16)])
        plan = engine.refresh(now) if refreshes or one_action else engine.balance(now=now)
        engine.apply(plan)
        made += [now] * len(plan.moves)
        assert all(sum(end - INTERVAL < time <= end for time in made) <= limit for end in made)


def test_a_refresh_says_that_the_limit_of_moves_is_reached() -> None:
    engine = engine_with(
        NODES,
        {f"p{number}": ("n0", 10.0) for number in range(8)},
        global_movement_throttle_threshold=2,
        global_movement_throttle_counting_interval=INTERVAL,
    )
    plan = engine.refresh(0.0)
    assert len(plan.moves) == 2
    engine.apply(plan)
    again = engine.refresh(INTERVAL - 1.0)
    assert not again.moves
    assert again.outcomes[0].idle[Phase.BALANCING] is Idle.THROTTLED
    assert len(engine.refresh(INTERVAL).moves) == 2


def test_after_an_error_moves_of_the_failed_plan_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = engine_with(NODES, {"a": ("n0", 40.0), "b": ("n0", 40.0)}, global_movement_throttle_threshold=1)
    with monkeypatch.context() as patched:
        patched.setattr("plb.planning.planner.merged", lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            engine.balance(now=0.0)
    assert len(engine.balance(now=0.0).moves) == 1
