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
from plb.model.rules import JOINING, Breach, Rule, RuleMask
from plb.phrasing import counted, listed
from plb.state.arrays import Problem, Proposal, Solution, siblings_of

RULE = int(Rule.AFFINITY)

FREE, AFFINITY_CHILD, STRANDED = 0, 1, 2
"""Values of `Problem.affinity`: no parent, one parent partition, a parent that is absent or has several partitions."""


@kernel(inline=True)
def refuses(problem: Problem, solution: Solution, enforced: RuleMask, row: int, target: int) -> bool:
    """Return whether replica `row` on `target` would be apart from its parent, or leave siblings apart from it."""
    if not problem.related or not enforced >> RULE & 1 or problem.affinity[row] == FREE:
        return False
    return _leaves_parent(problem, solution, enforced, row, target) or leaves_siblings_apart(problem, solution, row)


@kernel
def refuses_swap(problem: Problem, solution: Solution, enforced: RuleMask, proposal: Proposal) -> bool:
    """Return whether a swap of two siblings would part one of them from its parent."""
    row, target, partner, source = proposal
    if not enforced >> RULE & 1 or problem.affinity[row] == FREE:
        return False
    if _leaves_parent(problem, solution, enforced, row, target):
        return True
    return _leaves_parent(problem, solution, enforced, partner, source)


@kernel
def is_broken(problem: Problem, solution: Solution, enforced: RuleMask, row: int) -> bool:
    """Return whether a placed replica `row` is apart from its parent; false if the rule is not `enforced`."""
    return bool(enforced >> RULE & 1 and is_apart_on(problem, solution, row, solution.node[row]))


@kernel
def _leaves_parent(problem: Problem, solution: Solution, enforced: RuleMask, row: int, target: int) -> bool:
    """Return whether replica `row` must not move to `target` because it would be apart from its parent there.

    Without JOINING it may if it was apart before the search, and still is on its present node.
    """
    if not is_apart_on(problem, solution, row, target):
        return False
    node = solution.node[row]
    if enforced & JOINING or node == NOWHERE or not was_apart(problem, row):
        return True
    return not is_apart_on(problem, solution, row, node)


@kernel
def is_apart_on(problem: Problem, solution: Solution, row: int, target: int) -> bool:
    """Return whether replica `row` would be apart from its parent on `target`; false for a row without a parent."""
    return _is_apart(problem, solution.node, row, target)


@kernel
def was_apart(problem: Problem, row: int) -> bool:
    """Return whether replica `row` was apart from its parent before this search."""
    origin_node = problem.origin[row]
    if origin_node == NOWHERE:
        return bool(problem.affinity[row] == STRANDED)
    return _is_apart(problem, problem.origin, row, origin_node)


@kernel
def _is_apart(problem: Problem, nodes: Int, row: int, target: int) -> bool:
    """Return whether replica `row` on `target` is apart from its parent; `nodes`: (M,) node of each other row."""
    if problem.affinity[row] == FREE:
        return False
    if problem.affinity[row] == STRANDED:
        return True
    first_parent = problem.parent_row[row]
    parent = first_parent
    while True:
        if nodes[parent] == target and not problem.unspread[parent]:
            return bool(problem.aligned[row] and (problem.role[parent] == PRIMARY) != (problem.role[row] == PRIMARY))
        parent = problem.sibling[parent]
        if parent == first_parent:
            break
    # a child with more replicas than its parent needs only one beside each of these
    return not (problem.loose[row] and _accompanies_all(problem, nodes, row, first_parent))


@kernel
def leaves_siblings_apart(problem: Problem, solution: Solution, row: int) -> bool:
    """Return whether siblings of replica `row` are newly apart from their parent once `row` has left its node.

    They are not while each replica of the parent has a replica of the child on its node.
    """
    source = solution.node[row]
    if not problem.loose[row] or problem.unspread[row] or source == NOWHERE:
        return False
    first_parent = problem.parent_row[row]
    if has_sibling_on(problem, solution.node, row, source):
        return False
    if not _has_replica_on(problem, solution, first_parent, source):
        return False
    parent = first_parent
    while True:
        node = solution.node[parent]
        is_elsewhere = node not in (NOWHERE, source) and not problem.unspread[parent]
        if is_elsewhere and not has_sibling_on(problem, solution.node, row, node):
            return False  # the siblings are apart already
        parent = problem.sibling[parent]
        if parent == first_parent:
            break
    sibling = problem.sibling[row]
    while sibling != row:
        node = solution.node[sibling]
        is_placed = node != NOWHERE and not problem.unspread[sibling]
        if is_placed and not _has_replica_on(problem, solution, first_parent, node):
            return True
        sibling = problem.sibling[sibling]
    return False


@kernel
def breaks_pair(problem: Problem, solution: Solution, row: int) -> bool:
    """Return whether the node of `row` has a replica of its parent or of a child, which dropping `row` would separate.

    Replicas of a child count also while they leave; children with more replicas than their parent do not.
    """
    node = solution.node[row]
    parent = problem.parent_row[row]
    if parent != NOWHERE and _has_replica_on(problem, solution, parent, node):
        return True
    child = problem.first_child[row]
    while child != NOWHERE:
        if not problem.loose[child] and _has_any_on(problem, solution, child, node):
            return True
        child = problem.next_child[child]
    return False


@kernel
def _has_any_on(problem: Problem, solution: Solution, row: int, node: int) -> bool:
    """Return whether a replica of the partition of `row` is on `node`, even if it leaves; standbys do not count."""
    replica = row
    while True:
        if solution.node[replica] == node and not problem.standby[replica]:
            return True
        replica = problem.sibling[replica]
        if replica == row:
            return False


@kernel
def _has_replica_on(problem: Problem, solution: Solution, row: int, node: int) -> bool:
    """Return whether a replica of the partition of replica `row` is on `node`, standbys and leaving ones aside."""
    if solution.node[row] == node and not problem.unspread[row]:
        return True
    return has_sibling_on(problem, solution.node, row, node)


@kernel
def has_sibling_on(problem: Problem, nodes: Int, row: int, node: int) -> bool:
    """Return whether a sibling of `row` that counts (not `unspread`) is on `node`; `nodes`: (M,) node of each row."""
    sibling = problem.sibling[row]
    while sibling != row:
        if nodes[sibling] == node and not problem.unspread[sibling]:
            return True
        sibling = problem.sibling[sibling]
    return False


@kernel
def _accompanies_all(problem: Problem, nodes: Int, row: int, first_parent: int) -> bool:
    """Return whether every replica of the parent has a sibling of replica `row` on its node.

    `nodes`: (M,) node of each row; `first_parent`: a row of the parent's partition.
    """
    parent = first_parent
    while True:
        node = nodes[parent]
        if node != NOWHERE and not problem.unspread[parent] and not has_sibling_on(problem, nodes, row, node):
            return False
        parent = problem.sibling[parent]
        if parent == first_parent:
            return True


@attrs.frozen
class WithoutParent(RuledOut):
    """Nodes on which a child would be separate from its parent; see `Apart`."""

    rule: ClassVar[str] = "affinity"

    nodes: int
    """Number of these nodes."""
    parent: str
    parent_partitions: int
    together_on: tuple[str, ...]
    """As in `Apart`."""

    def __str__(self) -> str:
        return _parent_in_words(self.parent, self.parent_partitions, self.together_on)

    def changes(self, node: str, unmet: tuple[UnmetClause, ...]) -> Iterator[str]:
        """Yield in words what must change before `node` can take the replica; this rule does not need `unmet`."""
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
    """Return in words the nodes `together_on` that a child of `parent`, which may have only one partition, may use."""
    if partitions != 1:
        return f"its parent {parent} has {counted(partitions, 'partition')}, and affinity requires exactly one"
    if not together_on:
        return f"its parent {parent} has no replica that it can join"
    return f"it belongs on a node of its parent {parent}: {listed(together_on)}"


def _parent_of(named: NamedSolution, row: int) -> tuple[str, int, tuple[str, ...]]:
    """Return the parent service of a child's `row`, its number of partitions, and the nodes that the row may join."""
    problem, node, state = named.problem, named.solution.node, named.state
    parent = str(state.services[int(problem.service[row])].affinity_to)
    first_parent = int(problem.parent_row[row])
    if first_parent == NOWHERE:
        return parent, named.partitions_of_service[state.service_index[parent]], ()
    nodes = [
        named.node_of(replica)
        for replica in siblings_of(problem, first_parent)
        if node[replica] != NOWHERE
        and not problem.unspread[replica]
        and (not problem.aligned[row] or (problem.role[replica] == PRIMARY) == (problem.role[row] == PRIMARY))
    ]
    return parent, 1, tuple(nodes)


def _apart(named: NamedSolution, row: int) -> Apart:
    """Return the verdict on a child's replica `row` that is not on a node of its parent."""
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
    """Return the verdicts on all replicas that are apart from their parents."""
    problem, solution = named.problem, named.solution
    apart = np.zeros(len(solution.node), np.bool_)
    if (problem.affinity != FREE).any():
        _mark_apart(problem, solution, apart)
    return (_apart(named, row) for row in np.flatnonzero(apart).tolist())


@kernel
def _mark_apart(problem: Problem, solution: Solution, apart: Bool) -> None:
    """Set `apart`, (M,), to whether each row is placed and apart from its parent."""
    for row in range(apart.shape[0]):
        node = solution.node[row]
        apart[row] = node != NOWHERE and not problem.unspread[row] and is_apart_on(problem, solution, row, node)


def _reasons_to_follow(named: NamedSolution, after: Solution, phase: Phase, rows: Int) -> dict[int, Reason]:
    """Return the reasons, by row, of the moved replicas `rows`, (m,), whose nodes a replica of their parent has left.

    `named`, `after`: the solutions before and after the moves.
    """
    children = rows[named.problem.affinity[rows] == AFFINITY_CHILD]
    departed = np.full(len(children), NOWHERE)
    if len(children):
        _find_departed(named.problem, named.solution, after, children, departed)
    follows = departed != NOWHERE
    return {
        row: Reason(phase, "affinity", named.node_of(row), other=named.state.row_partition[parent])
        for row, parent in zip(children[follows].tolist(), departed[follows].tolist(), strict=True)
    }


@kernel
def _find_departed(problem: Problem, solution: Solution, after: Solution, children: Int, departed: Int) -> None:
    """Write to `departed`, (c,), for each of the rows `children`, (c,), the parent's replica that has left its node.

    `solution`, `after`: before and after the moves. Entries of children without such a replica stay.
    """
    for index in range(children.shape[0]):
        node, first_parent = solution.node[children[index]], problem.parent_row[children[index]]
        parent = first_parent
        while True:
            if solution.node[parent] == node and after.node[parent] != node:
                departed[index] = parent
                break
            parent = problem.sibling[parent]
            if parent == first_parent:
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
