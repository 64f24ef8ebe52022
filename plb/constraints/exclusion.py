"""Replica exclusion: no two replicas of a partition on one node (docs/constraints/exclusion.md)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import attrs

from plb.array_types import NOWHERE, Int
from plb.compiler import kernel
from plb.constraints.description import ExcludedNodes, RuleDescription
from plb.model.expressions import UnmetClause
from plb.model.rules import Rule
from plb.model.unplaced import RuledOut
from plb.phrasing import listed
from plb.state.arrays import Problem, Solution
from plb.state.cluster_state import ClusterState
from plb.state.proposal import Proposal
from plb.state.topology import Topology

RULE = int(Rule.EXCLUSION)


@kernel(inline=True)
def refuses(problem: Problem, solution: Solution, enforced: int, row: int, target: int) -> bool:
    """Return whether a replica of the same partition is on `target`, or was there before the search.

    A node that a sibling leaves in the same plan stays excluded, so that the moves of a plan can run in any order. For
    the same reason a row that has swapped roles with a sibling can only swap back. A replica may replace a standby. If
    moves may be chained, a node that a sibling leaves is allowed while the moves of the partition have a valid order.
    """
    node, origin, sibling, chains = solution.node, problem.origin, problem.sibling, problem.chains
    origin_node = origin[row]
    other = sibling[row]
    while other != row:
        if problem.standbys > 0 and problem.standby[other]:
            other = sibling[other]
            continue
        if node[other] == target:
            return True
        if not chains and (origin[other] == target or (origin_node != NOWHERE and node[other] == origin_node)):
            return True
        other = sibling[other]
    if not chains or origin_node == NOWHERE or target == origin_node:
        return False
    return _closes_cycle(node, origin, sibling, problem.role, row, target)


@kernel
def _closes_cycle(node: Int, origin: Int, sibling: Int, role: Int, row: int, target: int) -> bool:
    """Return whether the move of `row` to `target` closes a cycle of siblings that each take the next one's node.

    Two siblings of different roles may form a cycle: that is a swap.
    """
    at = target
    while True:
        after = NOWHERE
        other = sibling[row]
        while other != row:
            swaps = at == target and node[other] == origin[row] and role[other] != role[row]
            if origin[other] == at and node[other] != at and not swaps:
                after = node[other]
            other = sibling[other]
        if after == NOWHERE:
            return False
        if after == origin[row]:
            return True
        at = after


@kernel(inline=True)
def refuses_swap(problem: Problem, solution: Solution, enforced: int, proposal: Proposal) -> bool:
    """Return whether a swap of two siblings would cause moves that depend on their order.

    Two siblings may exchange their origins, which is one swap in the plan, or return from such a swap. Otherwise
    neither may be on the origin of a sibling.
    """
    node, origin, sibling = solution.node, problem.origin, problem.sibling
    row, there, partner, here = proposal
    crosses = here == origin[row] and there == origin[partner]
    returns = there == origin[row] and here == origin[partner]
    if crosses or returns:
        return False
    if here == origin[row] or there == origin[partner]:
        return True
    other = sibling[row]
    while other != row:
        if other != partner:
            on_origin = node[other] != NOWHERE and (node[other] == origin[row] or node[other] == origin[partner])
            if on_origin or origin[other] == here or origin[other] == there:
                return True
        other = sibling[other]
    return False


@attrs.frozen
class Taken(RuledOut):
    """Nodes with another replica of the partition, also one that the same plan moves."""

    rule: ClassVar[str] = "exclusion"

    nodes: int
    names: tuple[str, ...]

    def __str__(self) -> str:
        return f"another replica of the partition is on {listed(self.names)}"

    def changes(self, node: str, unmet: tuple[UnmetClause, ...]) -> Iterator[str]:
        """Yield what must change on a node."""
        yield f"the other replica of the partition must leave {node}"


def _ruled_out(excluded: ExcludedNodes) -> Taken:
    return Taken(len(excluded.nodes), excluded.named.names(excluded.nodes))


def _fields(state: ClusterState, topology: Topology) -> dict[str, Any]:
    return {"chains": state.config.allow_chained_moves}


DESCRIPTION = RuleDescription(Rule.EXCLUSION, _ruled_out, fields=_fields)
