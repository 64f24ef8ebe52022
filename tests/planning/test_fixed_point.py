"""No churn: balancing or repairing the engine's own result moves nothing, over random clusters."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plb import MoveKind, Node, Partition, PlacementAndLoadBalancing, Plan, Replica, Role, Service
from plb.model.move import Phase
from plb.testing import Cluster, all_clusters, configuration_of
from tests.engine.stories import engine_with
from tests.engine.strategies import examples

UNBOUND = {"max_percentage_to_move": 1.0}
"""Settings under which no budget of moves limits balancing; the services have no budgets either."""
ROUNDS = 40
"""More plans in sequence than any cluster of these tests needs to reach a fixed point."""


def unbound(cluster: Cluster) -> Cluster:
    """Return the cluster without budgets of its services."""
    return attrs.evolve(cluster, services=tuple(attrs.evolve(s, max_moves=None) for s in cluster.services))


def until_fixed_point(engine: PlacementAndLoadBalancing, verb: str, budget: int | None) -> int:
    """Apply plans until one moves nothing; return how many plans moved a replica."""
    for number in range(ROUNDS):
        plan = getattr(engine, verb)(budget=budget)
        if not plan.moves:
            return number
        engine.apply(plan)
    raise AssertionError(f"{verb} does not reach a fixed point")


def assert_moves_nothing(plan: Plan) -> None:
    assert plan.moves == ()
    assert plan.energy_after == plan.energy_before


@pytest.mark.parametrize("verb", ["repair", "balance"])
@examples(60)
@given(cluster=all_clusters(), budget=st.sampled_from([240, 60, None]))
def test_own_result_is_a_fixed_point(verb, cluster, budget):
    """A second plan after one without a budget of moves moves nothing, whether the first repaired everything or not."""
    engine = unbound(cluster).engine(**UNBOUND)
    start = configuration_of(engine)
    movable = int((start.problem.movable & (start.solution.node >= 0)).sum())
    first = getattr(engine, verb)(budget=budget)
    engine.apply(first)
    displaced = sum(2 if move.kind is MoveKind.SWAP else 1 for move in first.moves)
    if verb == "repair" or displaced < movable:  # a plan that moves every movable replica reaches a limit as well
        assert_moves_nothing(getattr(engine, verb)(budget=budget))


@examples(40)
@given(cluster=all_clusters(), budget=st.sampled_from([240, None]))
def test_plans_reach_a_fixed_point_with_any_budget_of_moves(cluster, budget):
    """If each plan may move only some replicas, a few plans reach a fixed point; another one moves nothing."""
    engine = cluster.engine()
    assert until_fixed_point(engine, "repair", budget) <= 4 * len(cluster.partitions)
    until_fixed_point(engine, "balance", budget)
    assert_moves_nothing(engine.balance(budget=budget))


@examples(40)
@given(cluster=all_clusters())
def test_refreshes_reach_a_fixed_point(cluster):
    """After a few refreshes of placement, repair and balancing at one time, no refresh moves a replica."""
    engine = cluster.engine()
    moved = []
    for _ in range(ROUNDS):
        plan = engine.refresh(0.0, budget=240)
        engine.apply(plan)
        moved.append(bool(plan.moves))
    assert False in moved
    assert not any(moved[moved.index(False) :])


def uneven() -> PlacementAndLoadBalancing:
    """Return four nodes with all load on the first, most of it in one replica, so that no placement is balanced."""
    loads = {f"w{index}": 1 + index % 15 * 2 + 300 * (index == 15) for index in range(16)}
    return engine_with({f"n{index}": 1000 for index in range(4)}, {name: ("n0", load) for name, load in loads.items()})


def test_plan_of_a_fixed_point_reports_it():
    """The plan ends at once: no phase runs and no proposal is generated."""
    engine = uneven()
    until_fixed_point(engine, "balance", None)
    plan = engine.balance()
    assert plan.end_reason == "nothing has changed since the last search of this kind"
    assert plan.phases == ()
    assert plan.proposals.generated == 0


@examples(60)
@given(cluster=all_clusters(), budget=st.sampled_from([240, None]))
def test_unchanged_cluster_has_the_same_energy_in_every_call(cluster, budget):
    """Whether balancing searches or knows that nothing has changed, the imbalance has the same weight."""
    engine = cluster.engine()
    until_fixed_point(engine, "balance", budget)
    engine.configure(attrs.evolve(engine.config, swap_primary_probability=0.3))
    plans = [engine.balance(budget=budget) for _ in range(3)]
    assert len({plan.energy_before for plan in plans}) == 1


def test_refresh_that_skips_balancing_weighs_as_the_one_before():
    """So does one that does one thing at a time, as Service Fabric."""
    engine = engine_with({"n0": None, "n1": None}, {"web/0": ("n0", 100.0), "web/1": ("n1", 1.0)})
    engine.configure(attrs.evolve(engine.config, one_action_per_refresh=True))
    plans = [engine.refresh(100.0 * (number + 1), budget=1) for number in range(4)]
    assert [plan.phases for plan in plans] == [(Phase.BALANCING,), (), (), ()]
    assert len({plan.energy_after for plan in plans}) == 1


@pytest.mark.parametrize(
    "change",
    [
        lambda engine: engine.report_load("w0", engine.replicas("w0")[0].node, {"cpu": 30}),
        lambda engine: engine.update_node(Node("n4", capacities={"cpu": 100})),
        lambda engine: engine.configure(attrs.evolve(engine.config, swap_primary_probability=0.1)),
        lambda engine: engine.update_service(Service("web", stateful=False, max_moves=9)),
        lambda engine: engine.update_partition(
            Partition("w1", service="web", replicas=[Replica(Role.INSTANCE, "n0", pinned=True)])
        ),
        lambda engine: engine.remove_partition("w2"),
    ],
    ids=["load", "node", "settings", "service", "partition", "removal"],
)
def test_any_change_ends_the_fixed_point(change):
    """The inputs of the result have changed, so the search runs again."""
    engine = uneven()
    until_fixed_point(engine, "balance", None)
    change(engine)
    assert engine.balance().proposals.generated > 0


def test_plan_that_is_not_applied_does_not_change_the_state():
    """A second call searches again, since the replicas have not moved."""
    engine = uneven()
    assert engine.balance().moves
    assert engine.balance().moves


def test_another_budget_starts_another_search():
    engine = uneven()
    until_fixed_point(engine, "balance", 400)
    assert engine.balance(budget=40_000).proposals.generated > 0
