"""Balancing does not move partitions that moved often (docs/service-fabric.md, Movement throttles)."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plb import Partition, Replica, Role
from plb.planning.scheduler import Action, Scheduler
from plb.settings.config import PlbConfig
from tests.engine.stories import CPU, engine_with
from tests.engine.strategies import examples

EAGER = {
    "MinLoadBalancingInterval": 0,
    "MaxPercentageToMove": 1.0,
    "MaxMovementExecutionTime": 0,
    "MaxSimulatedAnnealingIterations": 20,
    "BalancingDelayAfterNewNode": 0,
}
BALANCING, IDLE = "LoadBalancing", "NoActionNeeded"


def oscillating(**settings):
    """Return an engine with four instances on n0, two of which should move to n1, under Service Fabric's settings."""
    replicas = {f"p{index}": ("n0", 10) for index in range(4)}
    return engine_with({"n0": 100, "n1": 100}, replicas, original={**EAGER, **settings})


def moved_back_and_forth(engine, times: int) -> list[tuple[str, set[str]]]:
    """Refresh, apply the plan, and put all instances back on n0; return actions and moved partitions."""
    log = []
    for index in range(times):
        plan = engine.refresh(index + 1.0)
        log.append((next(iter(plan.actions.values())), {move.partition for move in plan.moves}))
        for name in {move.partition for move in plan.moves}:
            engine.update_partition(Partition(name, service="web", replicas=[Replica(Role.INSTANCE, "n0")]))
    return log


@pytest.mark.parametrize(("share", "second"), [(0.5, BALANCING), (0.49, IDLE), (1.0, BALANCING), (0.0, IDLE)])
def test_no_balancing_if_too_many_partitions_are_throttled(share, second):
    """Two of four unbalanced partitions are throttled: more than 0.49 of them, but not more than half."""
    settings = {
        "MovementPerPartitionThrottleThreshold": 1,
        "MovementThrottledPartitionsPercentageThreshold": share,
    }
    assert moved_back_and_forth(oscillating(**settings), 2)[1][0] == second


counts = st.dictionaries(st.sampled_from("abc"), st.integers(1, 5))
actions = st.sampled_from([Action.BALANCING, Action.PLACEMENT_WITH_MOVE, Action.PLACEMENT, Action.CONSTRAINT_CHECK])
history = st.lists(st.tuples(st.floats(0, 100), actions, counts), max_size=8).map(
    lambda entries: sorted(entries, key=lambda entry: entry[0])
)


@examples(100)
@given(history, st.integers(0, 8), st.floats(0, 100))
def test_counter_sums_the_moves_of_the_interval(entries, threshold, interval):
    """It counts moves of balancing and of placement with moves, by partition."""
    config = PlbConfig(
        metrics=[CPU],
        movement_per_partition_throttle_threshold=threshold,
        movement_per_partition_throttle_counting_interval=interval,
    )
    scheduler, spent = Scheduler(config), Counter()
    for at, action, moves in entries:
        scheduler.note_moves(action, at, moves)
        if action in (Action.BALANCING, Action.PLACEMENT_WITH_MOVE) and at > 100 - interval:
            spent.update(moves)
    assert scheduler.throttled("abc", 100.0) == {name for name in "abc" if spent[name] >= threshold}
