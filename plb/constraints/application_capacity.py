"""Capacity of applications: limits of load in all and on a node (docs/constraints/applications.md)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import attrs
import numpy as np

from plb.array_types import NOWHERE, Bool
from plb.compiler import kernel
from plb.constraints.application_sums import replaced_load, standby_on
from plb.constraints.description import ExcludedNodes, NamedSolution, RuleDescription
from plb.model.expressions import UnmetClause
from plb.model.move import Phase, Reason
from plb.model.outcome import RuledOut
from plb.model.rules import Breach, Rule, RuleMask
from plb.phrasing import amount
from plb.state.arrays import Problem, Proposal, Solution
from plb.state.cluster_state import ClusterState
from plb.state.topology import Topology

RULE = int(Rule.APPLICATION_CAPACITY)


@kernel(inline=True)
def refuses(problem: Problem, solution: Solution, enforced: RuleMask, row: int, target: int) -> bool:
    """Return whether replica `row` on `target`, where it replaces a standby, exceeds a capacity of its application."""
    return bool(problem.grouped and enforced >> RULE & 1 and _exceeds_any(problem, solution, row, target))


@kernel
def _exceeds_any(problem: Problem, solution: Solution, row: int, target: int) -> bool:
    """Return whether replica `row` on `target` exceeds the total capacity of its application, or the one on a node."""
    if problem.application[row] == NOWHERE:
        return False
    outgoing = standby_on(problem, solution, row, target)
    if _exceeds_total(problem, solution, row, outgoing):
        return True
    return exceeds_on_node(problem, solution, row, outgoing, target)


@kernel
def refuses_exchange(problem: Problem, solution: Solution, enforced: RuleMask, proposal: Proposal) -> bool:
    """Return whether an exchange would exceed an application's capacity on a node; false if not `enforced`."""
    if not problem.grouped or not enforced >> RULE & 1:
        return False
    row, target, partner, source = proposal
    return exceeds_on_node(problem, solution, row, partner, target) or exceeds_on_node(
        problem, solution, partner, row, source
    )


@kernel
def _exceeds_total(problem: Problem, solution: Solution, row: int, outgoing: int) -> bool:
    """Return whether a new replica `row` exceeds the total capacity of its application; moves do not change the total.

    `outgoing`: the standby that `row` replaces, or NOWHERE.
    """
    if problem.origin[row] != NOWHERE:
        return False
    application = problem.application[row]
    is_placed = solution.node[row] != NOWHERE
    for metric in range(problem.load.shape[1]):
        growth = problem.load[row, metric] - problem.load[outgoing, metric]
        without_row = solution.application_total[application, metric] - problem.load[row, metric] * int(is_placed)
        if growth > 0 and without_row + growth > problem.application_limit[application, metric]:
            return True
    return False


@kernel
def exceeds_on_node(problem: Problem, solution: Solution, row: int, outgoing: int, target: int) -> bool:
    """Return whether the application of replica `row` would grow on `target` above its capacity there.

    `outgoing`: the row that leaves `target` in exchange or is replaced, or NOWHERE.
    """
    application = problem.application[row]
    if application == NOWHERE:
        return False
    same_application = outgoing
    if outgoing != NOWHERE and problem.application[outgoing] != application:
        same_application = NOWHERE
    for metric in range(problem.load.shape[1]):
        growth = problem.load[row, metric] - problem.load[same_application, metric]
        present = solution.application_load[application, target, metric]
        present += problem.application_leaving[application, target, metric]
        if growth > 0 and present + growth > problem.application_node_limit[application, metric]:
            return True
    return False


@kernel
def is_full(problem: Problem, solution: Solution, enforced: RuleMask, row: int, target: int) -> bool:
    """Return whether `row`, which replaces no standby, would exceed its application's capacity on `target`."""
    if not problem.grouped or not enforced >> RULE & 1:
        return False
    return exceeds_on_node(problem, solution, row, NOWHERE, target)


@kernel
def excess_on_node(problem: Problem, solution: Solution, application: int, node: int, metric: int) -> int:
    """Return by how many quanta of `metric` an application's load on a node exceeds its capacity there, at least 0.

    Standbys that other replicas replace do not count.
    """
    excess = solution.application_load[application, node, metric] - problem.application_node_limit[application, metric]
    if excess > 0:
        excess -= replaced_load(problem, solution, application, node, metric, solution.node.shape[0])
    return max(0, int(excess))


@kernel
def is_broken(problem: Problem, solution: Solution, enforced: RuleMask, row: int) -> bool:
    """Return whether the application of a placed `row` exceeds its capacity on the node; false if not `enforced`."""
    application = problem.application[row]
    if not problem.grouped or not enforced >> RULE & 1 or application == NOWHERE:
        return False
    for metric in range(problem.load.shape[1]):
        if excess_on_node(problem, solution, application, solution.node[row], metric) > 0:
            return True
    return False


def overfull(problem: Problem, solution: Solution, enforced: RuleMask) -> Bool:
    """Return whether an application exceeds its capacity on a node, (A, N, R); all False if not `enforced`."""
    exceeds: Bool = solution.application_load > problem.application_node_limit[:, None, :]
    return exceeds & bool(enforced >> RULE & 1)


@attrs.frozen
class ApplicationFull(RuledOut):
    """Nodes on which a replica would exceed a capacity of its application, with the numbers of the emptiest of them."""

    rule: ClassVar[str] = "application_capacity"

    nodes: int
    """Number of these nodes."""
    application: str
    metric: str
    """The metric with the largest excess on the emptiest node."""
    node: str | None
    """The emptiest node; None: the application exceeds its total capacity."""
    needed: float
    """What the replica adds, in user units."""
    load: float
    """Load of the application on the node or in all, in user units."""
    limit: float
    """Capacity of the application on the node or in all, in user units."""

    def __str__(self) -> str:
        where = "in all" if self.node is None else f"on {self.node}"
        needed = f"{amount(self.needed)} {self.metric} needed"
        return f"{needed}; application {self.application} has {amount(self.load)} of {amount(self.limit)} {where}"

    @property
    def distance(self) -> float:
        """What is missing, as a share of what the replica needs; 1 if it needs nothing."""
        return (self.load + self.needed - self.limit) / self.needed if self.needed > 0 else 1.0

    def changes(self, node: str, unmet: tuple[UnmetClause, ...]) -> Iterator[str]:
        """Yield in words what must change before `node` can take the replica; this rule does not need `unmet`."""
        missing = amount(self.load + self.needed - self.limit)
        where = "in all" if self.node is None else f"on {node}"
        yield f"application {self.application} must have {missing} less {self.metric} {where} ({self})"


@attrs.frozen
class OverApplicationCapacity(Breach):
    """An application whose load exceeds its capacity on a node or in all (docs/constraints/applications.md)."""

    rule: ClassVar[str] = "application_capacity"

    application: str
    metric: str
    node: str | None
    """Name of the node; None: in all."""
    load: float
    """Load of the application on the node or in all, without departing replicas, in user units."""
    limit: float
    """Capacity of the application on the node or in all, in user units."""
    priority: int = 0
    """Priority of the rule: 0 hard, 1 soft, 2 optimisation."""

    @property
    def numbers(self) -> Mapping[str, float]:
        """The numbers by name."""
        return {"load": self.load, "limit": self.limit}

    def __str__(self) -> str:
        where = "in all" if self.node is None else f"on node {self.node}"
        load = f"{self.metric} of application {self.application} {where} is {amount(self.load)}"
        return f"{load}, above its limit of {amount(self.limit)}"


def _ruled_out(excluded: ExcludedNodes) -> ApplicationFull:
    """Return the numbers of the node on which the replica exceeds the capacity least."""
    nodes = [_full(excluded, node) for node in excluded.nodes.tolist()]
    return min(nodes, key=lambda full: full.distance)


def _full(excluded: ExcludedNodes, node: int) -> ApplicationFull:
    """Return the numbers of the metric that exceeds a capacity most on one node, or in all."""
    named, row = excluded.named, excluded.row
    problem, solution, state = named.problem, named.solution, named.state
    application, outgoing = int(problem.application[row]), standby_on(problem, solution, row, node)
    growth = problem.load[row] - problem.load[outgoing]
    load, limit = solution.application_total[application], problem.application_limit[application]
    exceeds_total = problem.origin[row] == NOWHERE and bool(((growth > 0) & (load + growth > limit)).any())
    if not exceeds_total:
        load = solution.application_load[application, node] + problem.application_leaving[application, node]
        limit = problem.application_node_limit[application]
    metric = max(np.flatnonzero(growth > 0).tolist(), key=lambda metric: load[metric] + growth[metric] - limit[metric])
    name = state.config.metrics[metric].name
    return ApplicationFull(
        nodes=len(excluded.nodes),
        application=state.applications.name_of(application),
        metric=name,
        node=None if exceeds_total else state.nodes[node].name,
        needed=state.quanta.to_user(name, int(growth[metric])),
        load=state.quanta.to_user(name, int(load[metric])),
        limit=state.quanta.to_user(name, int(limit[metric])),
    )


def _verdict(named: NamedSolution, application: int, node: int, metric: int) -> OverApplicationCapacity:
    """Return the verdict on an application above its capacity of `metric` on a node, or in total if it is NOWHERE."""
    problem, solution, state = named.problem, named.solution, named.state
    name = state.config.metrics[metric].name
    if node == NOWHERE:
        load, limit = solution.application_total[application], problem.application_limit[application]
    else:
        load, limit = solution.application_load[application, node], problem.application_node_limit[application]
    return OverApplicationCapacity(
        application=state.applications.name_of(application),
        metric=name,
        node=None if node == NOWHERE else state.nodes[node].name,
        load=state.quanta.to_user(name, int(load[metric])),
        limit=state.quanta.to_user(name, int(limit[metric])),
        priority=named.priorities[Rule.APPLICATION_CAPACITY],
    )


def _breaches(named: NamedSolution) -> Iterator[OverApplicationCapacity]:
    """Yield the verdicts on total capacities, then on capacities on nodes."""
    problem, solution = named.problem, named.solution
    for application, metric in np.argwhere(solution.application_total > problem.application_limit).tolist():
        yield _verdict(named, application, NOWHERE, metric)
    for application, node, metric in np.argwhere(overfull(problem, solution, 1 << RULE)).tolist():
        yield _verdict(named, application, node, metric)


def _reason(named: NamedSolution, phase: Phase, row: int) -> Reason:
    """Return as reason the first metric whose capacity the application of replica `row` exceeds on its node."""
    application, node = int(named.problem.application[row]), int(named.solution.node[row])
    exceeds = overfull(named.problem, named.solution, 1 << RULE)[application, node]
    return named.reason(phase, row, _verdict(named, application, node, int(exceeds.argmax())))


def _fields(state: ClusterState, topology: Topology) -> dict[str, Any]:
    """Return `Problem.application_leaving`, (A, N, R) quanta of departing replicas, by its name."""
    table, applications = state.rows, state.applications
    leaving = np.zeros((applications.capacity, len(state.nodes), len(state.config.metrics)), np.int64)
    if applications.capacity:
        rows = np.flatnonzero(table.used & table.leaving & (table.node != NOWHERE))
        application = state.service_table.application[table.service[rows]]
        rows, application = rows[application != NOWHERE], application[application != NOWHERE]
        np.add.at(leaving, (application, table.node[rows]), table.load[rows])
    return {"application_leaving": leaving}


DESCRIPTION = RuleDescription(
    Rule.APPLICATION_CAPACITY,
    _ruled_out,
    priority=lambda config: config.application_capacity_constraint_priority,
    concerns=lambda problem, row: bool(problem.application[row] != NOWHERE),
    fields=_fields,
    breaches=_breaches,
    reason=_reason,
)
