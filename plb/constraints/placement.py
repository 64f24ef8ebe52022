"""Placement: block lists and placement constraints of services (docs/constraints/placement.md)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

import attrs
import numpy as np

from plb.array_types import NOWHERE
from plb.compiler import kernel
from plb.constraints.description import ExcludedNodes, NamedSolution, RuleDescription
from plb.model.expressions import Expression, UnmetClause, unmet_clauses
from plb.model.outcome import RuledOut
from plb.model.role import Role
from plb.model.rules import NO_NUMBERS, Breach, Rule, RuleMask
from plb.state.arrays import Problem, Proposal, Solution

RULE = int(Rule.PLACEMENT)


@kernel
def refuses(problem: Problem, solution: Solution, enforced: RuleMask, row: int, target: int) -> bool:
    """Return whether `target` is blocked for the service of `row`, or does not satisfy its placement constraint."""
    return bool(enforced >> RULE & 1 and not problem.feasibility_classes[problem.feasibility_class[row], target])


@kernel
def refuses_swap(problem: Problem, solution: Solution, enforced: RuleMask, proposal: Proposal) -> bool:
    """Return whether one of two siblings may not be on the node of the other: roles may have constraints."""
    row, target, partner, source = proposal
    return refuses(problem, solution, enforced, row, target) or refuses(problem, solution, enforced, partner, source)


@kernel
def is_broken(problem: Problem, solution: Solution, enforced: RuleMask, row: int) -> bool:
    """Return whether a placed replica `row` is on a node that its service excludes; false if not `enforced`."""
    return refuses(problem, solution, enforced, row, solution.node[row])


@attrs.frozen
class Infeasible(RuledOut):
    """Nodes on which the service may not be placed."""

    rule: ClassVar[str] = "placement"

    nodes: int
    """Number of these nodes."""
    blocked: int
    """Number of nodes in the block list of the service."""
    unfit: int
    """Number of other nodes, which do not satisfy the placement constraint."""
    constraint: str
    """The placement constraint."""
    unknown: tuple[str, ...] = ()
    """Its properties that no node of the cluster has."""

    def __str__(self) -> str:
        blocked = f"{self.blocked} blocked for the service" if self.blocked else ""
        unfit = f"{self.unfit} not satisfying {self.constraint!r}" if self.unfit else ""
        unknown = f"and no node has {' or '.join(self.unknown)}" if self.unknown else ""
        return ", ".join(filter(None, (blocked, unfit, unknown)))

    def changes(self, node: str, unmet: tuple[UnmetClause, ...]) -> Iterator[str]:
        """Yield in words what must change before `node` can take the replica: the clauses `unmet` must hold."""
        if self.blocked:
            yield f"{node} must no longer be blocked for the service"
        yield from map(str, unmet)


@attrs.frozen
class Misplaced(Breach):
    """A replica on a node that its service does not allow (docs/constraints/placement.md)."""

    rule: ClassVar[str] = "placement"
    numbers: ClassVar[Mapping[str, float]] = NO_NUMBERS

    partition: str
    role: Role
    node: str
    service: str
    constraint: str | None
    """The placement constraint that does not hold; None: the node is blocked for the service."""
    priority: int = 0
    """Priority of the rule: 0 hard, 1 soft, 2 optimisation."""

    def __str__(self) -> str:
        who = f"{self.role.name.lower()} of {self.partition} is on node {self.node}"
        if self.constraint is None:
            return f"{who}, which is blocked for service {self.service}"
        return f"{who}, which does not satisfy the placement constraint {self.constraint!r} of service {self.service}"


def _ruled_out(excluded: ExcludedNodes) -> Infeasible:
    """Return how many excluded nodes are blocked and how many do not satisfy the placement constraint."""
    required = excluded.named.feasibility_class_of(excluded.row)
    blocked = sum(name in required.blocked for name in excluded.named.names(excluded.nodes))
    unfit = len(excluded.nodes) - blocked
    unknown = _unknown_properties(excluded.named, required.expression) if unfit else ()
    return Infeasible(len(excluded.nodes), blocked, unfit, required.expression.text, unknown)


def _unknown_properties(named: NamedSolution, expression: Expression) -> tuple[str, ...]:
    """Return the properties that an expression compares and that no node of the cluster has."""
    key = (Rule.PLACEMENT, "properties")
    if key not in named.kept:
        named.kept[key] = {name for node in named.state.nodes for name in node.placement_properties}
    return tuple(name for name in expression.properties if name not in named.kept[key])


def _misplaced(named: NamedSolution, row: int) -> Misplaced:
    """Return the verdict on a placed replica `row` on a node that its service does not allow."""
    node, required = named.node_of(row), named.feasibility_class_of(row)
    return Misplaced(
        partition=named.state.row_partition[row],
        role=named.role_of(row),
        node=node,
        service=named.state.services[int(named.problem.service[row])].name,
        constraint=None if node in required.blocked else required.expression.text,
        priority=named.priorities[Rule.PLACEMENT],
    )


def _breaches(named: NamedSolution) -> Iterator[Misplaced]:
    """Return the verdicts on all replicas on nodes that their services do not allow."""
    problem, node = named.problem, named.solution.node
    infeasible = (node != NOWHERE) & ~problem.unspread & ~problem.feasibility_classes[problem.feasibility_class, node]
    return (_misplaced(named, row) for row in np.flatnonzero(infeasible).tolist())


def _unmet(named: NamedSolution, row: int, node: int) -> tuple[UnmetClause, ...]:
    """Return the clauses of the placement constraint of replica `row` that a node does not satisfy."""
    properties = named.state.nodes[node].placement_properties
    primary = named.role_of(row) is Role.PRIMARY
    return unmet_clauses(named.feasibility_class_of(row).expression.text, properties, primary=primary)


DESCRIPTION = RuleDescription(
    Rule.PLACEMENT,
    _ruled_out,
    priority=lambda config: config.placement_constraint_priority,
    fields=lambda _state, topology: {"feasibility_classes": topology.feasibility_classes},
    breaches=_breaches,
    reason=lambda named, phase, row: named.reason(phase, row, _misplaced(named, row)),
    unmet=_unmet,
)
