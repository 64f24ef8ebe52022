"""Replanning from the present placement: valid plans, few moves, and fewer nodes if moves are allowed."""

from __future__ import annotations

from collections import Counter

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plb import ConflictError, InvalidValueError
from plb.provisioning import Instance, NoCapacityError, NodeType, ProvisioningPlan, moves_between, provision, replan
from tests.provisioning.strategies import instances, make_instance

pytestmark = pytest.mark.kernels


def make_plan(
    instance: Instance, rows: list[tuple[int, int, int]], kind: list[int], names: tuple[str, ...] | None = None
) -> ProvisioningPlan:
    """Return a plan of rows (application, node, count)."""
    application, node, count = np.array(rows, np.int32).reshape(-1, 3).T
    return ProvisioningPlan(instance, np.array(kind, np.int32), application, node, count, "given", 0.0, 1, names)


@st.composite
def placements(draw: st.DrawFn, *, counted: bool = False) -> ProvisioningPlan:
    """Draw a placement with missing replicas, overloaded nodes and surplus replicas."""
    instance = draw(instances(kinds=2, counted=counted))
    used = [draw(st.integers(0, 4 if node_type.count is None else node_type.count)) for node_type in instance.nodes]
    kind = draw(st.permutations([number for number, nodes in enumerate(used) for _ in range(nodes)]))
    places = st.tuples(st.integers(0, len(instance.applications) - 1), st.integers(0, max(0, len(kind) - 1)))
    rows = draw(st.dictionaries(places, st.integers(1, 4), max_size=12)) if kind else {}
    names = tuple(f"machine {number}" for number in range(len(kind)))
    return make_plan(
        instance, [(*pair, count) for pair, count in rows.items()], kind, draw(st.sampled_from([None, names]))
    )


def at(plan: ProvisioningPlan) -> Counter[tuple[str, str]]:
    """Return the number of replicas of each application on each node, by name."""
    names, counts = plan.node_names(), Counter[tuple[str, str]]()
    for application, node, count in zip(plan.application, plan.node, plan.count, strict=True):
        counts[plan.instance.applications[application], names[node]] += int(count)
    return counts


def moved(before: ProvisioningPlan, after: ProvisioningPlan) -> int:
    """Return the number of replicas that left their node without a smaller target, counted one by one."""
    lost, by_node = Counter[str](), Counter[str]()
    for (application, _), count in (at(before) - at(after)).items():
        lost[application] += count
    for (application, _), count in at(before).items():
        by_node[application] += count
    required = dict(zip(before.instance.applications, before.instance.replicas.tolist(), strict=True))
    return sum(count - max(0, by_node[name] - required[name]) for name, count in lost.items())


@given(plan=placements(), most=st.one_of(st.none(), st.integers(0, 6)), seed=st.integers(0, 3))
def test_new_plan_is_valid_and_depends_only_on_the_seed(plan: ProvisioningPlan, most: int | None, seed: int) -> None:
    after, again = (replan(plan, most_moves=most, seed=seed) for _ in range(2))
    assert after.faults() == ()
    assert at(after) == at(again)
    kinds = dict(zip(plan.node_names(), plan.kind, strict=True))
    for name, kind in zip(after.node_names(), after.kind, strict=True):
        assert kinds.get(name, kind) == kind
    assert len(set(after.node_names())) == after.nodes


@given(plan=placements(), most=st.integers(0, 6))
def test_no_more_replicas_move_than_allowed_or_forced(plan: ProvisioningPlan, most: int) -> None:
    """The forced moves are those without allowed moves; further moves save nodes."""
    repaired, after = replan(plan, most_moves=0), replan(plan, most_moves=most)
    forced, moves = moved(plan, repaired), moved(plan, after)
    assert moves <= max(most, forced)
    assert after.nodes < repaired.nodes or at(after) == at(repaired)


@given(instance=instances(kinds=2), most=st.one_of(st.none(), st.integers(0, 4)))
def test_valid_plan_stays_or_gets_fewer_nodes(instance: Instance, most: int | None) -> None:
    plan = provision(instance, "FF")
    after = replan(plan, most_moves=most)
    assert after.nodes <= plan.nodes
    if most == 0:
        assert at(after) == at(plan)


@given(plan=placements(counted=True))
def test_moves_lead_from_one_plan_to_the_other_without_detours(plan: ProvisioningPlan) -> None:
    after = replan(plan)
    moves = moves_between(plan, after)
    placed = Counter(at(plan))
    for application, source, target, count in zip(
        moves.application, moves.source, moves.target, moves.count, strict=True
    ):
        name = plan.instance.applications[application]
        assert source != target
        assert count > 0
        if source >= 0:
            placed[name, moves.nodes[source]] -= int(count)
        if target >= 0:
            placed[name, moves.nodes[target]] += int(count)
    assert +placed == at(after)
    assert min(placed.values(), default=0) >= 0
    assert moves.moved == moved(plan, after)
    assert moves.placed - moves.removed == int(plan.instance.replicas.sum()) - int(plan.count.sum())
    assert not (moves.placed and set(moves.application[moves.source < 0]) & set(moves.application[moves.target < 0]))


@pytest.mark.parametrize(
    ("instance", "rows", "name", "expected"),
    [
        # 4 + 4 + 3 on a node of 10: one 4 moves, and missing replicas fill the gap
        (
            make_instance([4, 3, 2], [2, 1, 1], []),
            [(0, 0, 2), (1, 0, 1)],
            "node-0",
            {("a", "node-0"): 1, ("b", "node-0"): 1, ("c", "node-0"): 1, ("a", "node-1"): 1},
        ),
        # two that may not share a node: the smaller one stays
        (
            make_instance([2, 3], [1, 1], [(0, 1, 0)]),
            [(0, 0, 1), (1, 0, 1)],
            "rack-1",
            {("a", "rack-1"): 1, ("b", "node-0"): 1},
        ),
    ],
)
def test_only_what_must_moves(instance: Instance, rows, name: str, expected) -> None:
    assert at(replan(make_plan(instance, rows, [0], (name,)))) == expected


def test_surplus_replicas_are_removed() -> None:
    instance = make_instance([2], [1], [])
    plan = make_plan(instance, [(0, 0, 2), (0, 1, 1)], [0, 0])
    after = replan(plan)
    moves = moves_between(plan, after)
    assert (after.nodes, moves.moved, moves.removed) == (1, 0, 2)


def test_moves_empty_the_nodes_with_fewest_replicas_first() -> None:
    """One of three nodes has a single replica; one move empties it."""
    instance = make_instance([2, 2, 2], [3, 3, 1], [])
    plan = make_plan(instance, [(0, 0, 3), (1, 1, 3), (2, 2, 1)], [0, 0, 0])
    assert replan(plan).nodes == 3
    after = replan(plan, most_moves=1)
    assert after.nodes == 2
    assert moves_between(plan, after).moved == 1


@pytest.mark.parametrize("capacities", [{"large": 40, "small": 8}, {"large": 40, "other": 40, "small": 8}])
def test_the_first_larger_kind_is_opened_if_it_empties_several_small_nodes(capacities: dict[str, int]) -> None:
    """Four full small nodes fit on one large one with sixteen moves. Fewer moves would save no node."""
    nodes = tuple(NodeType(name, np.array([capacity])) for name, capacity in capacities.items())
    instance = attrs.evolve(make_instance([2], [16], []), nodes=nodes)
    plan = make_plan(instance, [(0, node, 4) for node in range(4)], [len(nodes) - 1] * 4)
    after = replan(plan, most_moves=None)
    assert after.node_names() == ("large-0",)
    assert moves_between(plan, after).moved == 16
    assert at(replan(plan, most_moves=3)) == at(plan)


def test_application_without_a_place_is_named() -> None:
    instance = attrs.evolve(make_instance([6], [2], []), nodes=(NodeType("node", np.array([10]), 1),))
    with pytest.raises(NoCapacityError, match="application a fits on no node"):
        replan(make_plan(instance, [(0, 0, 1)], [0]))


@pytest.mark.parametrize(
    ("rows", "kind", "match"),
    [
        ([(0, 0, 0)], [0], "row 0: 0 replicas"),
        ([(0, 0, 1)], [0, 0], "node type node: 2 nodes are in use, there are 1"),
        ([(0, -1, 1)], [0], "row 0: node -1 is none of the 1 there are"),
    ],
)
def test_invalid_plan_is_refused(rows: list[tuple[int, int, int]], kind: list[int], match: str) -> None:
    instance = attrs.evolve(make_instance([1], [1], []), nodes=(NodeType("node", np.array([10]), 1),))
    with pytest.raises(ConflictError, match=match):
        replan(make_plan(instance, rows, kind))


def test_names_of_types_are_literal_and_numbers_of_moves_unbounded() -> None:
    instance = attrs.evolve(make_instance([6], [2], []), nodes=(NodeType("n{x}{0}", np.array([10])),))
    assert replan(make_plan(instance, [], []), most_moves=2**70).node_names() == ("n{x}{0}-0", "n{x}{0}-1")


@pytest.mark.parametrize(("field", "value"), [("most_moves", -1), ("time_limit", -1.0), ("seed", -1)])
def test_settings_out_of_range_are_named(field: str, value: float) -> None:
    instance = make_instance([1], [1], [])
    with pytest.raises(InvalidValueError, match=f"provisioning: {field} = {value}"):
        replan(make_plan(instance, [(0, 0, 1)], [0]), **{field: value})


def test_plans_of_different_applications_have_no_moves() -> None:
    small, large = (provision(make_instance([1] * size, [1] * size, []), "FF") for size in (1, 2))
    with pytest.raises(ConflictError, match="different applications"):
        moves_between(small, large)
