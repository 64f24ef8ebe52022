"""Budgets hold, and a plan reports which of them bound it and why its search ended."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plb import (
    InvalidValueError,
    Metric,
    MoveKind,
    Node,
    Partition,
    Phase,
    PlacementAndLoadBalancing,
    PlbConfig,
    Replica,
    Role,
    Service,
)
from plb.model.rules import Rule
from plb.planning import phases
from plb.search.budget import Budget
from plb.testing import all_clusters, clusters
from tests.engine.oracle import placement_of
from tests.engine.stories import add_partition, engine_with
from tests.engine.strategies import examples

END_REASONS = {
    "nothing to do",
    "no replica may move",
    "the budget of proposals is used up",
    "the energy no longer changes",
    "the time limit was reached",
}


@examples(100)
@given(
    clusters(), st.none() | st.integers(0, 3), st.none() | st.integers(0, 3), st.sampled_from(["balance", "refresh"])
)
def test_budgets_of_moves_hold(cluster, max_moves, max_moves_per_node, verb):
    """They hold in total, per node and per service; new replicas do not count, a swap of roles is one move."""
    engine = cluster.engine(max_moves=max_moves, max_moves_per_node=max_moves_per_node)
    plan = engine.balance(budget=240) if verb == "balance" else engine.refresh(0.0, budget=240)
    moves = [move for move in plan.moves if move.kind is not MoveKind.ADD]
    assert len(moves) <= (math.inf if max_moves is None else max_moves)
    ends = Counter(node for move in moves for node in (move.source, move.target))
    assert max(ends.values(), default=0) <= (math.inf if max_moves_per_node is None else max_moves_per_node)
    for service in cluster.services:
        of_service = sum(cluster.service_of(move.partition).name == service.name for move in moves)
        assert of_service <= (math.inf if service.max_moves is None else service.max_moves), service.name
    assert set(plan.bound_by) <= {"moves", "node_moves", "service_moves"}
    refused = {name for name in plan.proposals.refused_by_rule if name.endswith("moves")}
    assert set(plan.bound_by) == refused or (Phase.REPAIR in plan.phases and set(plan.bound_by) > refused)


@examples(80)
@given(all_clusters())
def test_share_to_move_holds(cluster):
    """A balancing plan moves at most the configured share of the movable replicas, rounded up."""
    engine = cluster.engine()
    movable = [r for r in placement_of(engine, cluster).values() if r.node and not (r.leaving or r.pinned)]
    plan = engine.balance(budget=240)
    assert len(plan.moves) <= math.ceil(engine.config.max_percentage_to_move * len(movable))


@examples(100)
@given(all_clusters(), st.integers(0, 500), st.sampled_from(["place", "repair", "balance"]))
def test_counts_of_proposals_are_consistent(cluster, budget, verb):
    """Proposals stay within the budget; each is scored, refused or fruitless, and accepted ones were scored."""
    engine = cluster.engine(
        initial_temperature_probe_count=0, upgrade_domain_constraint_priority=0, fault_domain_constraint_priority=0
    )
    plan = getattr(engine, verb)(budget=budget)
    counts = plan.proposals
    assert counts.generated <= budget
    assert counts.scored + sum(counts.refused_by_rule.values()) <= counts.generated
    assert counts.reached_monte_carlo <= counts.scored
    assert counts.accepted + sum(counts.rejected_by_term.values()) <= counts.scored
    assert set(counts.refused_by_rule) <= {rule.name.lower() for rule in Rule}
    assert plan.end_reason in END_REASONS
    assert plan.reproducible
    total = counts + counts
    assert total.generated == 2 * counts.generated
    assert sum(total.refused_by_rule.values()) == 2 * sum(counts.refused_by_rule.values())


def web(nodes: int = 4, replicas: int = 8, *, spread: int = 1, **config: object) -> PlacementAndLoadBalancing:
    """Return instances of growing load, all on the first `spread` nodes."""
    config = {"w_imbalance": 100.0, **config}
    engine = PlacementAndLoadBalancing(PlbConfig(metrics=[Metric("cpu")], **config), seed=5)
    for index in range(nodes):
        engine.update_node(Node(f"n{index}", capacities={"cpu": 1000}))
    engine.update_service(Service("web", stateful=False))
    for index in range(replicas):
        engine.update_partition(
            Partition(f"web/{index}", service="web", replicas=[Replica(Role.INSTANCE, f"n{index % spread}")])
        )
        engine.report_load(f"web/{index}", f"n{index % spread}", {"cpu": index + 3})
    return engine


@pytest.mark.parametrize(
    ("config", "service", "bound"),
    [
        ({"max_moves": 1}, {}, "moves"),
        ({"max_moves_per_node": 1}, {}, "node_moves"),
        ({}, {"max_moves": 1}, "service_moves"),
    ],
    ids=["in total", "per node", "per service"],
)
def test_plan_names_the_budget_that_bound(config, service, bound):
    engine = web(max_percentage_to_move=1.0, **config)
    engine.update_service(Service("web", stateful=False, **service))
    plan = engine.balance()
    assert len(plan.moves) == 1
    assert plan.bound_by == (bound,)
    assert plan.proposals.refused_by_rule[bound] > 0


@pytest.mark.parametrize(
    ("config", "service", "moves", "bound"),
    [
        ({}, {}, 2, ()),
        ({"max_moves": 2}, {}, 2, ()),
        ({"max_moves": 1}, {}, 1, ("moves",)),
        ({"max_moves": 0}, {}, 0, ("moves",)),
        ({"max_moves_per_node": 0}, {}, 0, ("node_moves",)),
        ({}, {"max_moves": 1}, 1, ("service_moves",)),
    ],
    ids=["none", "enough in total", "too few in total", "none in total", "none per node", "too few per service"],
)
def test_repair_names_the_budget_that_bound(config, service, moves, bound):
    """Two of three replicas have to leave a node; the plan and its text name the budget that keeps one there."""
    engine = engine_with({"n0": 10, "n1": 100}, {"a": ("n0", 6), "b": ("n0", 6), "c": ("n0", 6)}, **config)
    engine.update_service(Service("web", stateful=False, **service))
    plan = engine.repair()
    assert (len(plan.moves), plan.bound_by) == (moves, bound)
    if not moves:
        reason = f"repair ran and found nothing to change, bound by the budget of {bound[0].replace('_', ' ')}."
        assert plan.explain("a").endswith(reason)


def test_repair_that_no_budget_binds_names_none():
    """More moves do not help if the other node is full; a swap of roles helps, but the budget forbids it."""
    full = engine_with({"n0": 10, "n1": 4}, {"a": ("n0", 6), "b": ("n0", 6)}, max_moves=0)
    assert full.repair().bound_by == ()
    pair = engine_with({"n0": 10, "n1": 100}, {}, max_moves=0)
    pair.update_service(Service("db", target_replicas=2))
    add_partition(pair, "db/0", Replica(Role.PRIMARY, "n0"), Replica(Role.SECONDARY, "n1"))
    pair.report_load("db/0", "n0", {"cpu": 20})
    assert pair.repair().bound_by == ("moves",)


def test_budget_of_no_moves_moves_nothing():
    plan = web(max_moves=0).balance()
    assert plan.moves == ()
    assert plan.end_reason == "no replica may move"


def test_end_reasons_are_those_of_the_search():
    assert web(spread=4, replicas=0).balance().end_reason == "nothing to do"
    assert web().balance(budget=200).end_reason == "the budget of proposals is used up"
    assert web(max_simulated_annealing_iterations=500).balance().end_reason == "the energy no longer changes"


def test_time_limit_marks_the_plan():
    """A plan that the clock ends reports this and is not reproducible; one that converges first is."""
    unsettled = web(nodes=8, replicas=60, fast_balancing_temperature_decay_rate=1.0, initial_temperature=50.0)
    ended = unsettled.balance(budget=Budget(seconds=0.0))
    assert ended.end_reason == "the time limit was reached"
    assert not ended.reproducible
    converged = web().balance(budget=Budget(seconds=60.0))
    assert converged.end_reason == "the energy no longer changes"
    assert converged.reproducible


def test_mark_of_a_time_limit_survives_later_phases():
    """If the clock ends the placement, the plan is not reproducible even if repair then converges."""
    engine = web(nodes=8, replicas=60, spread=8, fast_balancing_temperature_decay_rate=1.0, initial_temperature=50.0)
    engine.update_service(Service("new", stateful=False, default_load={Role.INSTANCE: {"cpu": 9}}))
    for index in range(60):
        engine.update_partition(Partition(f"new/{index}", service="new"))
    engine.update_service(Service("pair", stateful=False, target_replicas=2))
    assert not engine.place(budget=Budget(seconds=0.0)).reproducible
    assert not engine.refresh(0.0, budget=Budget(seconds=0.0)).reproducible


def test_budget_that_is_ample_in_seconds_but_short_in_proposals_is_reproducible():
    """Both limits may be given; the one on proposals ends this search."""
    plan = web().balance(budget=Budget(proposals=200, seconds=60.0))
    assert plan.end_reason == "the budget of proposals is used up"
    assert plan.reproducible
    assert plan == web().balance(budget=200)


def ends_of_searches(monkeypatch: pytest.MonkeyPatch, engine: PlacementAndLoadBalancing, seconds: float) -> dict:
    """Refresh on a clock that only searches advance, each by a second; return the latest end of each by its name."""
    clock = [100.0]
    monkeypatch.setattr("plb.search.budget.working_time", lambda: clock[0])
    ends: dict[str, float] = {}

    def timed(name, search):
        def search_for_a_second(*arguments, **named):
            (budget,) = (one for one in arguments if isinstance(one, Budget))
            ends[name] = budget.deadline(clock[0], 1.0) - 100.0
            clock[0] += 1.0
            return search(*arguments, **named)

        return search_for_a_second

    for name in ("place_rows", "repair", "balance"):
        monkeypatch.setattr(phases, name, timed(name, getattr(phases, name)))
    engine.refresh(0.0, budget=Budget(proposals=50, seconds=seconds))
    return ends


def test_searches_of_a_call_share_its_seconds(monkeypatch):
    """A placement before repairs has half of them; repairs have what is left, as nothing is balanced then."""
    engine = web()
    engine.update_service(Service("new", stateful=False))
    engine.update_partition(Partition("new/0", service="new"))
    engine.update_service(Service("web", stateful=False, blocked_nodes=["n3"]))
    engine.update_service(Service("fixed", stateful=False, placement_constraint="zone == a"))
    engine.update_node(Node("n4", properties={"zone": "a"}))
    engine.update_partition(Partition("fixed/0", service="fixed", replicas=[Replica(Role.INSTANCE, "n0")]))
    ends = ends_of_searches(monkeypatch, engine, 12.0)
    assert ends["place_rows"] == pytest.approx(6.0, abs=1e-3)
    assert 1.0 < ends["repair"] <= 12.0
    assert "balance" not in ends


@pytest.mark.parametrize("budget", [-1, 1.5, "many", True])
def test_invalid_number_of_proposals_is_refused(budget):
    """A number of proposals is a whole number from 0; the call does not change the next plan."""
    engine = web()
    with pytest.raises(InvalidValueError, match=r"budget: proposals = .* is not allowed; expected a whole number >= 0"):
        engine.balance(budget=budget)
    assert engine.balance() == web().balance()


@pytest.mark.parametrize("seconds", [-1.0, math.nan, math.inf])
def test_invalid_number_of_seconds_is_refused(seconds):
    with pytest.raises(InvalidValueError, match="budget: seconds"):
        Budget(seconds=seconds)


@pytest.mark.parametrize(
    ("config", "budget"),
    [
        ({}, 0),
        ({}, 1),
        ({}, 3),
        ({"max_simulated_annealing_iterations": 0}, None),
        ({"chains": 1}, 7),
        ({"chains": 9}, 8),
    ],
    ids=["no proposals", "fewer than chains", "just fewer", "no rounds", "one chain", "more chains than proposals"],
)
def test_smallest_budgets_end_at_once(config, budget):
    """A search without proposals still places missing replicas, by its random walk, and moves nothing else."""
    engine = web(**config)
    engine.update_partition(Partition("new", service="web"))
    plan = engine.place(budget=budget)
    assert [move.kind for move in plan.moves] == [MoveKind.ADD]
    assert plan.proposals.generated <= (budget or 0)
    balanced = engine.balance(budget=budget)
    assert balanced.proposals.generated <= (budget or 0)
    assert balanced.end_reason == "the budget of proposals is used up"


@pytest.mark.parametrize("verb", ["place", "repair", "balance"])
def test_cluster_whose_nodes_are_all_down_gets_an_empty_plan(verb):
    """No replica can be placed or moved, and no search fails without nodes."""
    engine = web()
    for index in range(4):
        engine.update_node(Node(f"n{index}", capacities={"cpu": 1000}, up=False))
    engine.update_partition(Partition("new", service="web"))
    plan = getattr(engine, verb)()
    assert plan.moves == ()
    assert plan.energy_after == plan.energy_before
    assert plan.energy_before.imbalance == 0
    assert [str(u) for u in plan.unplaced] == (
        ["instance of new fits on none of 4 nodes: ruled out 4 by node (4 down)"] if verb == "place" else []
    )


@pytest.mark.parametrize("settings", [{}, {"policy": "first_fit"}, {"one_action_per_refresh": True}])
def test_cluster_without_nodes_gets_an_empty_plan(settings):
    """What placement is asked for is unplaced, with the reason, and it is placed once there is a node."""
    engine = PlacementAndLoadBalancing(PlbConfig(metrics=[Metric("cpu")], **settings))
    assert engine.refresh(0.0).unplaced == ()
    engine.update_service(Service("web", stateful=False, target_replicas=2, metrics={"cpu": 1.0}))
    engine.update_service(Service("child", affinity_to="web"))
    engine.update_service(Service("agent", stateful=False, on_every_node=True))
    for name in ("web", "child", "agent"):
        engine.update_partition(Partition(f"{name}/0", service=name))
    why = "fits on no node: the cluster has none"
    for plan in (engine.place(), engine.refresh(1000.0), engine.place(["web/0", "child/0"])):
        assert (plan.moves, plan.phases, plan.energy_after) == ((), (), plan.energy_before)
        assert [str(one) for one in plan.unplaced] == [f"instance of web/0 {why}"] * 2 + [f"primary of child/0 {why}"]
    assert plan.explain("child/0") == f"Primary of child/0 {why}."
    for plan in (engine.repair(), engine.balance()):
        assert (plan.moves, plan.unplaced) == ((), ())
        assert "because the cluster has no nodes" in plan.explain("web/0")
    twin = PlacementAndLoadBalancing.from_snapshot(engine.snapshot())
    for each in (engine, twin):
        each.update_nodes([Node("n0"), Node("n1")])
        assert len(each.refresh(2000.0).moves) == 5


def test_budget_of_a_small_numpy_integer_is_converted():
    budget = Budget(proposals=np.int8(100))
    assert (budget, type(budget.proposals)) == (Budget(proposals=100), int)
