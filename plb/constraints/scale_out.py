"""Scale-out: the replicas of an application use at most a number of nodes (docs/constraints/applications.md)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

import attrs
import numpy as np

from plb.array_types import NOWHERE, Int
from plb.compiler import kernel
from plb.constraints.description import ExcludedNodes, NamedSolution, RuleDescription
from plb.model.expressions import UnmetClause
from plb.model.outcome import RuledOut
from plb.model.rules import Breach, Rule, RuleMask
from plb.phrasing import counted, listed
from plb.state.arrays import Problem, Solution
from plb.state.cluster_state import application_fields

RULE = int(Rule.SCALE_OUT)


@kernel(inline=True)
def refuses(problem: Problem, solution: Solution, enforced: RuleMask, row: int, target: int) -> bool:
    """Return whether replica `row` on `target` makes its application use more nodes than it may."""
    return bool(problem.grouped and enforced >> RULE & 1 and _is_beyond_limit(problem, solution, row, target))


@kernel
def _is_beyond_limit(problem: Problem, solution: Solution, row: int, target: int) -> bool:
    """Return whether `row` on `target` makes its application use more nodes; the node that it leaves may be freed."""
    application = problem.application[row]
    if application == NOWHERE or solution.application_replicas[application, target] > 0:
        return False
    source = solution.node[row]
    freed = int(source != NOWHERE and solution.application_replicas[application, source] == 1)
    return bool(solution.application_nodes[application] - freed >= problem.most_nodes[application])


@kernel
def nodes_above_limit(problem: Problem, solution: Solution, application: int) -> int:
    """Return by how many nodes an application exceeds `Problem.most_nodes`, at least 0."""
    return max(0, int(solution.application_nodes[application] - problem.most_nodes[application]))


@kernel
def is_broken(problem: Problem, solution: Solution, enforced: RuleMask, row: int) -> bool:
    """Return whether the application of a placed replica `row` uses too many nodes; false if not `enforced`."""
    if not problem.grouped or not enforced >> RULE & 1 or problem.application[row] == NOWHERE:
        return False
    return nodes_above_limit(problem, solution, problem.application[row]) > 0


def broken_applications(problem: Problem, solution: Solution, enforced: RuleMask) -> Int:
    """Return the indices of the applications, ascending, that use too many nodes; none if the rule is not enforced."""
    return np.flatnonzero((solution.application_nodes > problem.most_nodes) & bool(enforced >> RULE & 1))


def limits_of_balancing(problem: Problem, solution: Solution) -> Int:
    """Return `Problem.most_nodes` for balancing, (A,): an application above its limit may use as many as before."""
    return np.maximum(problem.most_nodes, solution.application_nodes)


@attrs.frozen
class BeyondScaleOut(RuledOut):
    """Nodes that an application does not use while it uses as many as it may."""

    rule: ClassVar[str] = "scale_out"

    nodes: int
    """Number of these nodes."""
    application: str
    most_nodes: int
    """Most nodes that the application may use."""
    used: tuple[str, ...]
    """Names of the nodes that it uses."""

    def __str__(self) -> str:
        used = f"its replicas use {listed(self.used)}" if self.used else "its replicas use none"
        return f"application {self.application} may use {counted(self.most_nodes, 'node')}, and {used}"

    def changes(self, node: str, unmet: tuple[UnmetClause, ...]) -> Iterator[str]:
        """Yield in words what must change before `node` can take the replica; this rule does not need `unmet`."""
        yield f"{node} must have a replica of application {self.application}, or it must use fewer nodes ({self})"


@attrs.frozen
class TooManyNodes(Breach):
    """An application whose replicas use more nodes than they may (docs/constraints/applications.md)."""

    rule: ClassVar[str] = "scale_out"

    application: str
    nodes: tuple[str, ...]
    """Names of the nodes that its replicas use."""
    most_nodes: int
    """Most nodes that they may use."""
    priority: int = 0
    """Priority of the rule: 0 hard, 1 soft, 2 optimisation."""

    @property
    def numbers(self) -> Mapping[str, float]:
        """The numbers by name."""
        return {"nodes": len(self.nodes), "most_nodes": self.most_nodes}

    def __str__(self) -> str:
        uses = f"application {self.application} uses {counted(len(self.nodes), 'node')}, {listed(self.nodes)}"
        return f"{uses}; it may use {self.most_nodes}"


def _ruled_out(excluded: ExcludedNodes) -> BeyondScaleOut:
    """Return the limit of nodes of the row's application, and the nodes that it uses."""
    named = excluded.named
    application = int(named.problem.application[excluded.row])
    return BeyondScaleOut(
        len(excluded.nodes),
        named.state.applications.name_of(application),
        int(named.problem.most_nodes[application]),
        _nodes_of(named, application),
    )


def _nodes_of(named: NamedSolution, application: int) -> tuple[str, ...]:
    """Return the names of the nodes that the application of this index uses."""
    return named.names(np.flatnonzero(named.solution.application_replicas[application]))


def _verdict(named: NamedSolution, application: int) -> TooManyNodes:
    """Return the verdict on the application of this index, which uses too many nodes."""
    return TooManyNodes(
        application=named.state.applications.name_of(application),
        nodes=_nodes_of(named, application),
        most_nodes=int(named.problem.most_nodes[application]),
        priority=named.priorities[Rule.SCALE_OUT],
    )


def _breaches(named: NamedSolution) -> Iterator[TooManyNodes]:
    """Return the verdicts on all applications that use too many nodes."""
    broken = broken_applications(named.problem, named.solution, 1 << RULE)
    return (_verdict(named, application) for application in broken.tolist())


DESCRIPTION = RuleDescription(
    Rule.SCALE_OUT,
    _ruled_out,
    priority=lambda config: config.scaleout_count_constraint_priority,
    concerns=lambda problem, row: bool(problem.application[row] != NOWHERE),
    fields=lambda state, _topology: application_fields(state),
    breaches=_breaches,
    reason=lambda named, phase, row: named.reason(phase, row, _verdict(named, int(named.problem.application[row]))),
)
