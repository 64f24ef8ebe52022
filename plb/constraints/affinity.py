"""Affinity: the replicas of a child are on the nodes of its parent's replicas (docs/constraints/affinity.md).

Each replica of a child is on a node with a replica of the parent. If the two are aligned and both have a primary, the
primaries share a node, and secondaries share nodes with secondaries. A child with more replicas than its parent only
needs one on the node of every replica of the parent. Standbys and leaving replicas do not count.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

import attrs
import numpy as np

from plb.array_types import NOWHERE, Bool, Int
from plb.compiler import kernel
from plb.constraints.description import NamedSolution, RuleDescription
from plb.model.expressions import UnmetClause
from plb.model.move import Phase, Reason
from plb.model.outcome import RuledOut
from plb.model.role import PRIMARY, Role
from plb.model.rules import JOINING, Breach, Rule
from plb.phrasing import counted, listed
from plb.state.arrays import Problem, Proposal, Solution, siblings_of

RULE = int(Rule.AFFINITY)

FREE, AFFINITY_CHILD, STRANDED = 0, 1, 2
"""Values of `Problem.affinity`: no parent, one parent partition, or a parent that is absent or not one partition."""


@kernel(inline=True)
def refuses(problem: Problem, solution: Solution, enforced: int, row: int, target: int) -> bool:
    """Return whether `row` on `target` would be apart from its parent, or leave siblings apart from it."""
    if not problem.related or not enforced >> RULE & 1 or problem.affinity[row] == FREE:
        return False
    return _leaves_parent(problem, solution, enforced, row, target) or leaves_siblings_apart(problem, solution, row)


@kernel
def refuses_swap(problem: Problem, solution: Solution, enforced: int, proposal: Proposal) -> bool:
    """Return whether a swap of two siblings would part one of them from its parent."""
    row, there, partner, here = proposal
    if not enforced >> RULE & 1 or problem.affinity[row] == FREE:
        return False
    if _leaves_parent(problem, solution, enforced, row, there):
        return True
    return _leaves_parent(problem, solution, enforced, partner, here)


@kernel
def is_broken(problem: Problem, solution: Solution, enforced: int, row: int) -> bool:
    """Return whether a placed `row` is apart from its parent."""
    return bool(enforced >> RULE & 1 and parts_from_parent(problem, solution, row, solution.node[row]))


@kernel
def _leaves_parent(problem: Problem, solution: Solution, enforced: int, row: int, target: int) -> bool:
    """Return whether a child would be apart from its parent on `target`, and was not before or JOINING is enforced."""
    if not parts_from_parent(problem, solution, row, target):
        return False
    here = solution.node[row]
    if enforced & JOINING or here == NOWHERE or not was_apart(problem, row):
        return True
    return not parts_from_parent(problem, solution, row, here)


@kernel
def parts_from_parent(problem: Problem, solution: Solution, row: int, target: int) -> bool:
    """Return whether `row`, a replica of a child, would be apart from its parent on `target`."""
    return _is_apart(problem, solution.node, row, target)


@kernel
def was_apart(problem: Problem, row: int) -> bool:
    """Return whether `row` was apart from its parent before this search."""
    origin_node = problem.origin[row]
    if origin_node == NOWHERE:
        return bool(problem.affinity[row] == STRANDED)
    return _is_apart(problem, problem.origin, row, origin_node)


@kernel
def _is_apart(problem: Problem, places: Int, row: int, target: int) -> bool:
    """Return whether `row` on `target` is apart from its parent, with all other rows on `places`, (M,)."""
    if problem.affinity[row] == FREE:
        return False
    if problem.affinity[row] == STRANDED:
        return True
    parent = problem.parent_row[row]
    this = parent
    while True:
        if places[this] == target and not problem.unspread[this]:
            return bool(problem.aligned[row] and (problem.role[this] == PRIMARY) != (problem.role[row] == PRIMARY))
        this = problem.sibling[this]
        if this == parent:
            break
    return not (problem.loose[row] and _accompanies_all(problem, places, row, parent))


@kernel
def leaves_siblings_apart(problem: Problem, solution: Solution, row: int) -> bool:
    """Return whether siblings of `row` are apart from their parent once `row` has left its node.

    They are not while each replica of the parent has a replica of the child on its node.
    """
    here = solution.node[row]
    if not problem.loose[row] or problem.unspread[row] or here == NOWHERE:
        return False
    parent = problem.parent_row[row]
    if has_company(problem, solution.node, row, here) or not _has_replica_on(problem, solution, parent, here):
        return False
    this = parent
    while True:
        at = solution.node[this]
        is_elsewhere = at not in (NOWHERE, here) and not problem.unspread[this]
        if is_elsewhere and not has_company(problem, solution.node, row, at):
            return False  # they are apart already
        this = problem.sibling[this]
        if this == parent:
            break
    sibling = problem.sibling[row]
    while sibling != row:
        at = solution.node[sibling]
        if at != NOWHERE and not problem.unspread[sibling] and not _has_replica_on(problem, solution, parent, at):
            return True
        sibling = problem.sibling[sibling]
    return False


@kernel
def breaks_pair(problem: Problem, solution: Solution, row: int) -> bool:
    """Return whether dropping `row` separates it from a replica of a parent or child on its node.

    Replicas of a child count also while they leave; children with more replicas than their parent do not.
    """
    at = solution.node[row]
    parent = problem.parent_row[row]
    if parent != NOWHERE and _has_replica_on(problem, solution, parent, at):
        return True
    child = problem.first_child[row]
    while child != NOWHERE:
        if not problem.loose[child] and _stands_or_leaves(problem, solution, child, at):
            return True
        child = problem.next_child[child]
    return False


@kernel
def _stands_or_leaves(problem: Problem, solution: Solution, row: int, node: int) -> bool:
    """Return whether a replica of the partition of `row` is on `node`, even if it leaves; standbys do not count."""
    this = row
    while True:
        if solution.node[this] == node and not problem.standby[this]:
            return True
        this = problem.sibling[this]
        if this == row:
            return False


@kernel
def _has_replica_on(problem: Problem, solution: Solution, row: int, node: int) -> bool:
    """Return whether a replica of the partition of `row` is on `node`."""
    if solution.node[row] == node and not problem.unspread[row]:
        return True
    return has_company(problem, solution.node, row, node)


@kernel
def has_company(problem: Problem, places: Int, row: int, node: int) -> bool:
    """Return whether a sibling of `row` is on `node`, with all rows on `places`, (M,)."""
    sibling = problem.sibling[row]
    while sibling != row:
        if places[sibling] == node and not problem.unspread[sibling]:
            return True
        sibling = problem.sibling[sibling]
    return False


@kernel
def _accompanies_all(problem: Problem, places: Int, row: int, parent: int) -> bool:
    """Return whether every replica of the parent has a replica of the child, other than `row`, on its node."""
    this = parent
    while True:
        at = places[this]
        if at != NOWHERE and not problem.unspread[this] and not has_company(problem, places, row, at):
            return False
        this = problem.sibling[this]
        if this == parent:
            return True


@attrs.frozen
class WithoutParent(RuledOut):
    """Nodes on which a child would be separate from its parent; see `Apart`."""

    rule: ClassVar[str] = "affinity"

    nodes: int
    parent: str
    parent_partitions: int
    together_on: tuple[str, ...]

    def __str__(self) -> str:
        return _parent_in_words(self.parent, self.parent_partitions, self.together_on)

    def changes(self, node: str, unmet: tuple[UnmetClause, ...]) -> Iterator[str]:
        """Yield what must change on a node."""
        yield f"{self.parent} must have a replica on {node} ({self})"


@attrs.frozen
class Apart(Breach):
    """A replica of a child that is not on a node of its parent (docs/constraints/affinity.md)."""

    rule: ClassVar[str] = "affinity"

    partition: str
    role: Role
    node: str
    parent: str
    """Name of the parent service."""
    parent_partitions: int
    """Number of partitions of the parent; affinity requires one."""
    together_on: tuple[str, ...]
    """Nodes with a replica of the parent, of the same role if the two are aligned."""
    priority: int = 0
    """Priority of the rule: 0 hard, 1 soft, 2 optimisation."""

    @property
    def numbers(self) -> Mapping[str, float]:
        """The numbers by name."""
        return {"parent_partitions": self.parent_partitions}

    def __str__(self) -> str:
        where = _parent_in_words(self.parent, self.parent_partitions, self.together_on)
        return f"affinity of {self.role.name.lower()} of {self.partition} on node {self.node} is broken: {where}"


def _parent_in_words(parent: str, partitions: int, together_on: tuple[str, ...]) -> str:
    """Return the nodes that affinity allows for a child, in words."""
    if partitions != 1:
        return f"its parent {parent} has {counted(partitions, 'partition')}, and affinity requires exactly one"
    if not together_on:
        return f"its parent {parent} has no replica that it can join"
    return f"it belongs on a node of its parent {parent}: {listed(together_on)}"


def _parent_of(named: NamedSolution, row: int) -> tuple[str, int, tuple[str, ...]]:
    """Return the parent service of a child, its number of partitions, and the nodes that affinity allows."""
    problem, node, state = named.problem, named.solution.node, named.state
    parent = str(state.services[int(problem.service[row])].affinity_to)
    head = int(problem.parent_row[row])
    if head == NOWHERE:
        return parent, named.partitions_of_service[state.service_index[parent]], ()
    nodes = [
        named.node_of(replica)
        for replica in siblings_of(problem, head)
        if node[replica] != NOWHERE
        and not problem.unspread[replica]
        and (not problem.aligned[row] or (problem.role[replica] == PRIMARY) == (problem.role[row] == PRIMARY))
    ]
    return parent, 1, tuple(nodes)


def _apart(named: NamedSolution, row: int) -> Apart:
    """Return the verdict on a child that is not on a node of its parent."""
    parent, partitions, together_on = _parent_of(named, row)
    return Apart(
        partition=named.state.row_partition[row],
        role=named.role_of(row),
        node=named.node_of(row),
        parent=parent,
        parent_partitions=partitions,
        together_on=together_on,
        priority=named.priorities[Rule.AFFINITY],
    )


def _breaches(named: NamedSolution) -> Iterator[Apart]:
    problem, solution = named.problem, named.solution
    apart = np.zeros(len(solution.node), np.bool_)
    if (problem.affinity != FREE).any():
        _mark_apart(problem, solution, apart)
    return (_apart(named, row) for row in np.flatnonzero(apart).tolist())


@kernel
def _mark_apart(problem: Problem, solution: Solution, apart: Bool) -> None:
    for row in range(apart.shape[0]):
        at = solution.node[row]
        apart[row] = at != NOWHERE and not problem.unspread[row] and parts_from_parent(problem, solution, row, at)


def _reasons_to_follow(named: NamedSolution, after: Solution, phase: Phase, rows: Int) -> dict[int, Reason]:
    """Return the partitions of the parents as the reasons of children whose nodes a replica of the parent left."""
    children = rows[named.problem.affinity[rows] == AFFINITY_CHILD]
    left = np.full(len(children), NOWHERE)
    if len(children):
        _find_left(named.problem, named.solution, after, children, left)
    followed = left != NOWHERE
    return {
        row: Reason(phase, "affinity", named.node_of(row), other=named.state.row_partition[parent])
        for row, parent in zip(children[followed].tolist(), left[followed].tolist(), strict=True)
    }


@kernel
def _find_left(problem: Problem, solution: Solution, after: Solution, children: Int, left: Int) -> None:
    """Write the replica of the parent of each child that left the child's node, if there is one."""
    for place in range(children.shape[0]):
        node, parent = solution.node[children[place]], problem.parent_row[children[place]]
        this = parent
        while True:
            if solution.node[this] == node and after.node[this] != node:
                left[place] = this
                break
            this = problem.sibling[this]
            if this == parent:
                break


DESCRIPTION = RuleDescription(
    Rule.AFFINITY,
    lambda excluded: WithoutParent(len(excluded.nodes), *_parent_of(excluded.named, excluded.row)),
    priority=lambda config: config.affinity_constraint_priority,
    concerns=lambda problem, row: bool(problem.affinity[row] != FREE),
    breaches=_breaches,
    reason=lambda named, phase, row: named.reason(phase, row, _apart(named, row)),
    reasons_to_follow=_reasons_to_follow,
)
