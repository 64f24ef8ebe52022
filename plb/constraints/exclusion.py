"""Replica exclusion: no two replicas of a partition on one node (docs/constraints/exclusion.md)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

import attrs
import numpy as np

from plb.array_types import NOWHERE, Bool, Int
from plb.compiler import kernel
from plb.constraints.description import NamedSolution, RuleDescription
from plb.model.expressions import UnmetClause
from plb.model.outcome import RuledOut
from plb.model.role import PRIMARY
from plb.model.rules import Breach, Rule, RuleMask
from plb.phrasing import counted, listed
from plb.state.arrays import Problem, Proposal, Solution, siblings_of

RULE = int(Rule.EXCLUSION)


@kernel(inline=True)
def refuses(problem: Problem, solution: Solution, enforced: RuleMask, row: int, target: int) -> bool:
    """Return whether a replica of the same partition is on `target`, or was there before the search.

    A node that a sibling leaves in the same plan stays excluded, so that moves can run in any order; so a row that has
    swapped roles can only swap back. With chained moves it is allowed while the moves have a valid order. A replica may
    leave a sibling that was on its node before, and may replace a standby.
    """
    node, origin, sibling, chains = solution.node, problem.origin, problem.sibling, problem.chains
    row_origin = origin[row]
    replica = sibling[row]
    while replica != row:
        if problem.standbys > 0 and problem.standby[replica]:
            replica = sibling[replica]
            continue
        if node[replica] == target:
            return True
        if not chains and origin[replica] == target:
            return True
        if not chains and row_origin != NOWHERE and node[replica] == row_origin and origin[replica] != row_origin:
            return True
        replica = sibling[replica]
    if not chains or row_origin == NOWHERE or target == row_origin:
        return False
    return _closes_cycle(node, origin, sibling, problem.role, row, target)


@kernel
def _closes_cycle(node: Int, origin: Int, sibling: Int, role: Int, row: int, target: int) -> bool:
    """Return whether the move of replica `row` to `target` closes a cycle of siblings, other than a swap of two roles.

    In a cycle each moves to the node that the next one leaves. `node`, `origin`, `sibling`, `role`: (M,) of `Solution`
    and `Problem`.
    """
    freed_node = target
    followed = 0
    while True:
        next_node = NOWHERE
        siblings = 0
        replica = sibling[row]
        while replica != row:
            siblings += 1
            is_swap = freed_node == target and node[replica] == origin[row] and role[replica] != role[row]
            if origin[replica] == freed_node and node[replica] != freed_node and not is_swap:
                next_node = node[replica]
            replica = sibling[replica]
        if next_node == NOWHERE:
            return False
        if next_node == origin[row] or followed > siblings:
            return True
        freed_node = next_node
        followed += 1


@kernel(inline=True)
def refuses_swap(problem: Problem, solution: Solution, enforced: RuleMask, proposal: Proposal) -> bool:
    """Return whether a swap of two siblings would cause moves that depend on their order.

    Two siblings may exchange their origins, or undo this. Otherwise neither may be on the origin of a sibling.
    """
    node, origin, sibling = solution.node, problem.origin, problem.sibling
    row, target, partner, source = proposal
    if source == target:
        return True
    crosses = source == origin[row] and target == origin[partner]
    returns = target == origin[row] and source == origin[partner]
    if crosses or returns:
        return False
    if source == origin[row] or target == origin[partner]:
        return True
    replica = sibling[row]
    while replica != row:
        if replica != partner:
            on_origin = node[replica] != NOWHERE and (node[replica] == origin[row] or node[replica] == origin[partner])
            if on_origin or origin[replica] == source or origin[replica] == target:
                return True
        replica = sibling[replica]
    return False


@kernel
def is_broken(problem: Problem, solution: Solution, row: int) -> bool:
    """Return whether a placed replica `row` has to leave its node, as another replica of its partition stays there.

    The one that stays may not move, else is the primary, else the first. Leaving replicas and standbys do not count.
    """
    if problem.unspread[row]:
        return False
    node = solution.node[row]
    sibling = problem.sibling[row]
    while sibling != row:
        if solution.node[sibling] == node and not problem.unspread[sibling] and _stays_before(problem, sibling, row):
            return True
        sibling = problem.sibling[sibling]
    return False


@kernel
def _stays_before(problem: Problem, first: int, second: int) -> bool:
    """Return whether of two replicas of a partition on a node, the rows `first` and `second`, the first one stays."""
    if problem.repairable[first] != problem.repairable[second]:
        return bool(not problem.repairable[first])
    is_primary = problem.role[first] == PRIMARY
    if is_primary != (problem.role[second] == PRIMARY):
        return bool(is_primary)
    return first < second


@attrs.frozen
class SharedNode(Breach):
    """A node with several replicas of a partition (docs/constraints/exclusion.md)."""

    rule: ClassVar[str] = "exclusion"
    priority: ClassVar[int] = 0

    partition: str
    node: str
    replicas: int
    """Number of replicas of the partition on the node, without standbys and departing ones."""

    @property
    def numbers(self) -> Mapping[str, float]:
        """The numbers by name."""
        return {"replicas": self.replicas}

    def __str__(self) -> str:
        return f"node {self.node} holds {counted(self.replicas, 'replica')} of {self.partition}; at most one is allowed"


@attrs.frozen
class Taken(RuledOut):
    """Nodes with another replica of the partition, also one that the same plan moves."""

    rule: ClassVar[str] = "exclusion"

    nodes: int
    """Number of these nodes."""
    names: tuple[str, ...]
    """Names of these nodes."""

    def __str__(self) -> str:
        return f"another replica of the partition is on {listed(self.names)}"

    def changes(self, node: str, unmet: tuple[UnmetClause, ...]) -> Iterator[str]:
        """Yield in words what must change before `node` can take the replica; this rule does not need `unmet`."""
        yield f"the other replica of the partition must leave {node}"


def _shared_node(named: NamedSolution, row: int) -> SharedNode:
    """Return the verdict on the node of replica `row`, which has several replicas of its partition."""
    problem, node = named.problem, named.solution.node
    on_node = [
        sibling for sibling in siblings_of(problem, row) if node[sibling] == node[row] and not problem.unspread[sibling]
    ]
    return SharedNode(named.state.row_partition[row], named.node_of(row), len(on_node))


def _breaches(named: NamedSolution) -> Iterator[SharedNode]:
    """Return the verdicts on all nodes with several replicas of a partition."""
    node = named.solution.node
    shares = np.empty(len(node), np.bool_)
    _mark_broken(named.problem, named.solution, shares)
    first = {(named.state.row_partition[row], int(node[row])): row for row in np.flatnonzero(shares)[::-1].tolist()}
    return (_shared_node(named, row) for row in sorted(first.values()))


@kernel
def _mark_broken(problem: Problem, solution: Solution, broken: Bool) -> None:
    """Set `broken`, (M,), to whether each row is placed and breaks the rule."""
    for row in range(broken.shape[0]):
        broken[row] = solution.node[row] != NOWHERE and is_broken(problem, solution, row)


DESCRIPTION = RuleDescription(
    Rule.EXCLUSION,
    lambda excluded: Taken(len(excluded.nodes), excluded.named.names(excluded.nodes)),
    fields=lambda state, _topology: {"chains": state.config.allow_chained_moves},
    breaches=_breaches,
    reason=lambda named, phase, row: named.reason(phase, row, _shared_node(named, row)),
)
