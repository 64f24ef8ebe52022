"""Nodes that may receive replicas, and nodes that have to be emptied (docs/constraints/node.md)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import attrs
import numpy as np

from plb.array_types import NOWHERE
from plb.compiler import kernel
from plb.constraints.description import ExcludedNodes, NamedSolution, RuleDescription
from plb.model import DeactivationIntent, Node
from plb.model.expressions import UnmetClause
from plb.model.outcome import RuledOut
from plb.model.role import Role
from plb.model.rules import NO_NUMBERS, Breach, Rule, RuleMask
from plb.state.arrays import Problem, Proposal, Solution

RULE = int(Rule.NODE)


@kernel
def refuses(problem: Problem, solution: Solution, enforced: RuleMask, row: int, target: int) -> bool:
    """Return whether `target` is down or deactivated, so that it may not receive replica `row`."""
    return not problem.receives[problem.kind[row], target]


@kernel
def refuses_swap(
    problem: Problem, solution: Solution, enforced: RuleMask, proposal: Proposal
) -> bool:  # all rules have these arguments
    """Return whether one of two siblings may not be received by the node of the other."""
    return not (problem.receives[0, proposal.source] and problem.receives[0, proposal.target])


@kernel
def is_broken(problem: Problem, solution: Solution, enforced: RuleMask, row: int) -> bool:
    """Return whether a placed `row` is on a node that has to be emptied; false if not `enforced`.

    Departing ends and standbys do not count.
    """
    return bool(enforced >> RULE & 1 and problem.drained[solution.node[row]] and not problem.unspread[row])


@attrs.frozen
class OnRemovedNode(Breach):
    """A replica on a node that has to be emptied, as it is to be removed."""

    rule: ClassVar[str] = "node"
    numbers: ClassVar[Mapping[str, float]] = NO_NUMBERS
    priority: ClassVar[int] = 0

    partition: str
    role: Role
    node: str
    intent: str
    """The intent of its deactivation: `remove_data` or `remove_node`."""

    def __str__(self) -> str:
        who = f"{self.role.name.lower()} of {self.partition}"
        return f"{who} is on node {self.node}, which is to be emptied ({self.intent})"


@attrs.frozen
class OutOfService(RuledOut):
    """Nodes that are down or deactivated."""

    rule: ClassVar[str] = "node"

    nodes: int
    """Number of these nodes."""
    states: Mapping[str, int]
    """Number of these nodes by state, such as ``"down"`` or ``"deactivated (restart, safety_check_complete)"``."""

    def __str__(self) -> str:
        return ", ".join(f"{count} {state}" for state, count in self.states.items())

    def changes(self, node: str, unmet: tuple[UnmetClause, ...]) -> Iterator[str]:
        """Yield in words what must change before `node` can take the replica; this rule does not need `unmet`."""
        yield f"{node} must be back in service (it is {', '.join(self.states)})"


def _ruled_out(excluded: ExcludedNodes) -> OutOfService:
    """Return how many of the nodes that this rule excludes are down, or deactivated for each reason."""
    nodes = excluded.named.state.nodes
    states = Counter(_state_of(nodes[index]) for index in excluded.nodes.tolist())
    return OutOfService(len(excluded.nodes), dict(states))


def _state_of(node: Node) -> str:
    """Return the availability of a node in words: ``"down"``, ``"up"``, or how far it is deactivated."""
    if not node.up:
        return "down"
    if node.deactivation_intent is DeactivationIntent.NONE:
        return "up"
    return f"deactivated ({node.deactivation_intent.value}, {node.deactivation_status.value})"


def _on_removed_node(named: NamedSolution, row: int) -> OnRemovedNode:
    """Return the verdict on a placed replica `row`, whose node has to be emptied."""
    node = named.state.nodes[int(named.solution.node[row])]
    return OnRemovedNode(named.state.row_partition[row], named.role_of(row), node.name, node.deactivation_intent.value)


def rows_to_drain(problem: Problem, solution: Solution) -> Sequence[int]:
    """Return the rows, ascending, on nodes that have to be emptied; without departing ends and standbys."""
    if not problem.drained.any():
        return ()
    placed = np.flatnonzero((solution.node != NOWHERE) & ~problem.unspread)
    rows: list[int] = placed[problem.drained[solution.node[placed]]].tolist()
    return rows


def _breaches(named: NamedSolution) -> Iterator[OnRemovedNode]:
    """Return the verdicts on all replicas on nodes that have to be emptied."""
    return (_on_removed_node(named, row) for row in rows_to_drain(named.problem, named.solution))


DESCRIPTION = RuleDescription(
    Rule.NODE,
    _ruled_out,
    fields=lambda _state, topology: {
        "receives": topology.receives,
        "targets": topology.targets,
        "drained": topology.drained,
    },
    breaches=_breaches,
    reason=lambda named, phase, row: named.reason(phase, row, _on_removed_node(named, row)),
)
