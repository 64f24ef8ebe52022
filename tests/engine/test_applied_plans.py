"""Applying the plan of an engine does what applying its moves one by one does."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plb import Metric, Node, Partition, PlacementAndLoadBalancing, Plan, PlbConfig, PlbError, Replica, Role, Service
from plb.model.plan import PlanMoves
from plb.testing import all_clusters
from tests.engine.strategies import examples

pytestmark = pytest.mark.kernels

CHANGES = {
    "move_existing_replica_for_placement": True,
    "swap_primary_probability": 0.4,
    "exchange_probability": 0.3,
    "w_imbalance": 100.0,
}
"""Settings under which plans have moves of many kinds."""


@examples(60)
@given(
    cluster=all_clusters(),
    verbs=st.lists(st.sampled_from(["place", "repair", "balance", "refresh"]), min_size=1, max_size=4),
    leaving=st.booleans(),
    stale=st.booleans(),
)
def test_whole_plan_is_applied_like_its_moves_by_hand(cluster, verbs, leaving, stale):
    """Engines with the plan, the tuple of its moves and one move after another end the same, or refuse it alike."""
    engines = [cluster.engine(**CHANGES) for _ in range(3)]
    earlier: Plan | None = None
    for number, verb in enumerate(verbs):
        plans = [getattr(engine, verb)(now=float(number), budget=240) for engine in engines]
        assert isinstance(plans[0].moves, PlanMoves)
        plan = earlier if stale and earlier is not None else plans[0]
        by_hand = attrs.evolve(plan, moves=tuple(plan.moves))
        refusals = [refusal(engine, [some], leaving) for engine, some in zip(engines, (plan, by_hand), strict=False)]
        assert refusals[0] == refusals[1]
        assert engines[0].snapshot().to_bytes() == engines[1].snapshot().to_bytes()
        if refusals[0] is None:
            steps = [attrs.evolve(plan, moves=(move,)) for move in plan.moves]
            assert refusal(engines[2], steps, leaving) is None
            assert engines[2].snapshot().to_bytes() == engines[0].snapshot().to_bytes()
        earlier = plan


def refusal(engine: PlacementAndLoadBalancing, plans: list[Plan], leaving: bool) -> str | None:
    """Apply plans; return the text of the error, or None."""
    try:
        for plan in plans:
            engine.apply(plan, leaving=leaving)
    except PlbError as error:
        return str(error)
    return None


def test_partition_with_a_move_that_does_not_fit_keeps_the_others_from_being_applied():
    """A plan is applied whole or not at all, and the error names the move."""
    engine = PlacementAndLoadBalancing(PlbConfig(metrics=[Metric("cpu")], max_percentage_to_move=1.0), seed=0)
    for index in range(4):
        engine.update_node(Node(f"n{index}", capacities={"cpu": 100}))
    engine.update_service(Service("db", target_replicas=2))
    for name in ("db/0", "db/1"):
        engine.update_partition(Partition(name, service="db"))
    plan = engine.place()
    assert [move.partition for move in plan.moves] == ["db/0", "db/0", "db/1", "db/1"]
    placed = [Replica(Role.PRIMARY, "n0"), Replica(Role.SECONDARY, "n1")]
    engine.update_partition(Partition("db/1", service="db", replicas=placed))
    before = engine.snapshot().to_bytes()
    with pytest.raises(PlbError, match=r"of db/1 on n\d: there is no such replica any more"):
        engine.apply(plan)
    assert engine.snapshot().to_bytes() == before
