"""Repairs that prefer swaps draw among the nodes that are allowed and those of siblings of the other role."""

from __future__ import annotations

from collections import Counter

import pytest

from plb import Metric, Node, Partition, PlacementAndLoadBalancing, PlbConfig, Replica, Role, Service
from plb.array_types import NOWHERE
from plb.compiler import Stream, kernel
from plb.model.rules import ALL_RULES
from plb.search.extension_state import constraints_of
from plb.search.repair.swaps import move_or_swap
from plb.search.transactions import Draft, new_transaction, undo_transaction
from tests.engine.stories import search_of

DRAWS = 600


def engine_with(*, secondary: float, capacity: float = 100, **settings) -> PlacementAndLoadBalancing:
    """Return an engine with a primary of load 8 on n0, a secondary on n1, and as many free nodes as there are more."""
    metric = Metric("cpu", quantum=1.0, violation_threshold=1.0)
    engine = PlacementAndLoadBalancing(PlbConfig(metrics=[metric], **settings), seed=1)
    for index in range(5):
        engine.update_node(Node(f"n{index}", capacities={"cpu": capacity if index == 0 else 100}))
    load = {Role.PRIMARY: {"cpu": 8}, Role.SECONDARY: {"cpu": secondary}}
    engine.update_service(Service("db", target_replicas=2, default_load=load))
    replicas = [Replica(Role.PRIMARY, "n0"), Replica(Role.SECONDARY, "n1")]
    engine.update_partition(Partition("db/0", service="db", replicas=replicas))
    return engine


@kernel
def _move_or_swap(problem, solution, extension_state, row, metric, rng, transaction):
    return move_or_swap(problem, solution, Draft(extension_state, rng, transaction), ALL_RULES, row, metric)


def drawn(engine: PlacementAndLoadBalancing, metric: int) -> Counter[int]:
    run, transaction, rng = search_of(engine), new_transaction(8), Stream(3)
    constraints = constraints_of(None, run.problem, run.solution)
    primary = engine.replicas("db/0")[0].index
    found: Counter[int] = Counter()
    for _ in range(DRAWS):
        assert _move_or_swap(run.problem, run.solution, constraints.state, primary, metric, rng, transaction)
        found[int(run.solution.node[primary])] += 1
        undo_transaction(run.problem, run.solution, transaction, 0)
    return found


def test_each_free_node_and_the_sibling_are_drawn_equally_often():
    found = drawn(engine_with(secondary=2), 0)
    assert set(found) == {1, 2, 3, 4}
    assert all(abs(count - DRAWS / 4) < DRAWS / 12 for count in found.values())


@pytest.mark.parametrize(("metric", "swaps"), [(0, False), (NOWHERE, True)])
def test_role_of_a_heavier_sibling_relieves_no_node(metric, swaps):
    """Such a swap is drawn only where the load does not matter."""
    assert (1 in drawn(engine_with(secondary=9), metric)) is swaps


@pytest.mark.parametrize(("one_action", "kind"), [(True, "swap"), (False, "move")])
@pytest.mark.parametrize("seed", range(4))
def test_repair_takes_the_swap_where_that_costs_less(one_action, kind, seed):
    """Both end the violation. Where a refresh does one thing, a swap is found without annealing, too."""
    engine = engine_with(
        secondary=2,
        capacity=4,
        one_action_per_refresh=one_action,
        use_move_cost_reports=True,
        simulated_annealing_iterations_per_round=0,
    )
    engine.report_move_cost("db/0", Role.PRIMARY, "high")
    engine.seed = seed
    plan = engine.repair()
    assert [move.kind.value for move in plan.moves] == [kind]
    engine.apply(plan)
    assert not engine.violations()
