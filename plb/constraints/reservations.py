"""What nodes keep free for applications, in words: part of the rule of capacity (docs/constraints/applications.md)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import attrs
import numpy as np

from plb.array_types import NOWHERE, Int
from plb.constraints.application_sums import growth_with_reservations, occupied_nodes
from plb.constraints.named_solution import NamedSolution
from plb.constraints.standbys import standby_on
from plb.model.violations import Violation
from plb.phrasing import amount, listed
from plb.state.arrays import Problem, Solution


@attrs.frozen
class ReservationViolation(Violation):
    """A node whose load is below its violation threshold, but above its limit with what it keeps free for applications.

    Parameters
    ----------
    node, metric
        Their names.
    load, reserved, limit
        Load of the node, without departing replicas; what it keeps free for the applications beyond their loads; the
        load to which the engine fills the node, inclusive. User units.
    applications
        Names of the applications for which it keeps some free.
    """

    rule: ClassVar[str] = "capacity"

    node: str
    metric: str
    load: float
    reserved: float
    limit: float
    applications: tuple[str, ...]

    @property
    def numbers(self) -> Mapping[str, float]:
        """The numbers by name."""
        return {"load": self.load, "reserved": self.reserved, "limit": self.limit}

    def __str__(self) -> str:
        load = f"{self.metric} of node {self.node} is {amount(self.load)}"
        kept = f"{amount(self.reserved)} more reserved for {listed(self.applications)}"
        return f"{load}, with {kept}, above its limit of {amount(self.limit)}"


def reservation_violations(named: NamedSolution) -> list[ReservationViolation]:
    """Return the nodes in the statistics that only reservations lift above their limit, by metric."""
    problem, solution = named.problem, named.solution
    if not problem.reserves:
        return []
    above = occupied_nodes(problem, solution) > problem.limit
    found = above & (solution.node_load < problem.threshold) & problem.counted[:, None]
    return [_violation(named, node, metric) for node, metric in np.argwhere(found).tolist()]


def _violation(named: NamedSolution, node: int, metric: int) -> ReservationViolation:
    problem, solution, quanta = named.problem, named.solution, named.state.quanta
    name = named.state.config.metrics[metric].name
    return ReservationViolation(
        node=named.state.nodes[node].name,
        metric=name,
        load=quanta.to_user(name, int(solution.node_load[node, metric])),
        reserved=quanta.to_user(name, int(solution.reserved[node, metric])),
        limit=quanta.to_user(name, int(problem.limit[node, metric])),
        applications=applications_kept(named, node, metric),
    )


def applications_kept(named: NamedSolution, node: int, metric: int) -> tuple[str, ...]:
    """Return the names of the applications for which a node keeps some of a metric free."""
    problem, solution = named.problem, named.solution
    unused = problem.reservation[:, metric] > solution.application_load[:, node, metric]
    kept = np.flatnonzero(unused & (solution.application_replicas[:, node] > 0))
    return tuple(named.state.applications.name_of(application) for application in kept.tolist())


def needed_with_reservations(named: NamedSolution, row: int, node: int) -> list[int]:
    """Return by how much load and reservations of a node grow together with `row`, by metric in quanta."""
    problem, solution = named.problem, named.solution
    outgoing = standby_on(problem, solution, row, node)
    return [
        growth_with_reservations(problem, solution, row, outgoing, node, metric)
        for metric in range(problem.load.shape[1])
    ]


def gains_too_much(problem: Problem, solution: Solution, row: int, growth: Int) -> bool:
    """Return whether a node, or the application of a row on it, would exceed its limit if the load of the row grows.

    Parameters
    ----------
    growth
        (R,) quanta.
    """
    node, application = int(solution.node[row]), int(problem.application[row])
    load = occupied_nodes(problem, solution)[node] + problem.leaving_load[node]
    more = growth
    if problem.grouped and application != NOWHERE:
        own = solution.application_load[application, node]
        more = growth - np.clip(problem.reservation[application] - own, 0, growth)
        present = own + problem.application_leaving[application, node]
        if ((growth > 0) & (present + growth > problem.application_node_limit[application])).any():
            return True
    return bool(((more > 0) & (load + more > problem.limit[node])).any())
