"""Nodes that may receive replicas (docs/constraints/node.md)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import attrs

from plb.compiler import kernel
from plb.constraints.description import ExcludedNodes, RuleDescription
from plb.model import DeactivationIntent, Node
from plb.model.expressions import UnmetClause
from plb.model.rules import Rule
from plb.model.unplaced import RuledOut
from plb.state.arrays import Problem, Solution
from plb.state.cluster_state import ClusterState
from plb.state.proposal import Proposal
from plb.state.topology import Topology

RULE = int(Rule.NODE)


@kernel
def refuses(problem: Problem, solution: Solution, enforced: int, row: int, target: int) -> bool:
    """Return whether `target` is down or deactivated, so that it may not receive `row`."""
    return not problem.receives[problem.kind[row], target]


@kernel
def refuses_swap(problem: Problem, solution: Solution, enforced: int, proposal: Proposal) -> bool:  # as of every rule
    """Return whether a node of two siblings may not receive the other one."""
    return not (problem.receives[0, proposal.source] and problem.receives[0, proposal.target])


@attrs.frozen
class OutOfService(RuledOut):
    """Nodes that are down or deactivated.

    Parameters
    ----------
    states
        Number of these nodes by state, such as ``"down"`` or ``"deactivated (restart, safety_check_complete)"``.
    """

    rule: ClassVar[str] = "node"

    nodes: int
    states: Mapping[str, int]

    def __str__(self) -> str:
        return ", ".join(f"{count} {state}" for state, count in self.states.items())

    def changes(self, node: str, unmet: tuple[UnmetClause, ...]) -> Iterator[str]:
        """Yield what must change on a node."""
        yield f"{node} must be back in service (it is {', '.join(self.states)})"


def _ruled_out(excluded: ExcludedNodes) -> OutOfService:
    described = excluded.named.state.nodes
    states = Counter(_state_of(described[node]) for node in excluded.nodes.tolist())
    return OutOfService(len(excluded.nodes), dict(states))


def _state_of(node: Node) -> str:
    if not node.up:
        return "down"
    if node.deactivation_intent is DeactivationIntent.NONE:
        return "up"
    return f"deactivated ({node.deactivation_intent.value}, {node.deactivation_status.value})"


def _fields(state: ClusterState, topology: Topology) -> dict[str, Any]:
    return {"receives": topology.receives, "targets": topology.targets}


DESCRIPTION = RuleDescription(Rule.NODE, _ruled_out, fields=_fields)
