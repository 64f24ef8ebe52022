"""A configuration of the cluster that can be changed move by move, its built-in terms, and the test of admission."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import attrs
import numpy as np

from plb.array_types import NOWHERE, Float, Int
from plb.energy.expected_failovers import count_violations_with
from plb.energy.from_scratch import solution_from_scratch
from plb.energy.score import TermDescription
from plb.energy.terms import TERMS_IN_ORDER, present_energy, values_of
from plb.errors import ConflictError
from plb.evaluation.delta import apply_proposal, compare_with_scratch
from plb.evaluation.proposals import find_refusals, refusal
from plb.model import Node, Role, Service
from plb.model.quanta import UNLIMITED
from plb.model.rules import ALL_RULES, NO_REFUSAL, Rule, RuleMask
from plb.risk.demand_history import DemandHistory
from plb.risk.risk_model import ReplicaForecast
from plb.state.arrays import Problem, Proposal, Solution
from plb.state.cluster_state import Description
from plb.validation import check_name, check_number

__all__ = ["Configuration", "Proposal", "Relocation"]


class Relocation(NamedTuple):
    """A replica with its old and its new node; either node may be NOWHERE."""

    row: int
    """Row of the replica."""
    source: int
    target: int
    """Indices of the nodes."""


class Configuration:
    """The nodes of all replicas, and every sum that follows from them.

    Replicas are rows and nodes are indices, as in `plb.state.arrays`; `description` has their names, or only numbers.
    """

    def __init__(self, problem: Problem, solution: Solution, description: Description | None = None) -> None:
        self.problem, self.solution = problem, solution
        self.description = Description() if description is None else description

    # what terms, constraints and policies read

    @property
    def rows(self) -> Int:
        """The replicas that are placed or missing, without departing ones."""
        problem, table = self.problem, self.description.replicas
        if table is not None:
            return np.flatnonzero(table.used & ~problem.leaving)
        present = (problem.origin != NOWHERE) | problem.movable | (self.solution.node != NOWHERE)
        return np.flatnonzero(present & ~problem.leaving)

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return len(self.problem.limit)

    def node_of(self, row: int) -> int:
        """Return the node of a replica, or NOWHERE."""
        return int(self.solution.node[row])

    def rows_on(self, node: int) -> Int:
        """Return the replicas on a node, without departing ones."""
        return np.flatnonzero((self.solution.node == node) & ~self.problem.leaving)

    def load_of(self, row: int) -> Float:
        """Return the load of a replica by metric, (R,) in user units."""
        return np.asarray(self.problem.load[row] * self.description.quanta, np.float64)

    @property
    def loads(self) -> Float:
        """The load of every node by metric, (N, R) in user units; departing replicas do not count."""
        return np.asarray(self.solution.node_load * self.description.quanta, np.float64)

    @property
    def capacities(self) -> Float:
        """The capacity of every node by metric, (N, R) in user units; infinite where it has none."""
        capacity = self.problem.capacity
        return np.where(capacity < UNLIMITED, capacity * self.description.quanta, np.inf)

    @property
    def shares(self) -> Float:
        """The load of every node as a share of its capacity, (N, R); 0 where it has no capacity, or one of 0."""
        return np.asarray(self.solution.node_load * self.problem.inverse_capacity, np.float64)

    @property
    def now(self) -> float:
        """Time of the search, in seconds on the host's clock."""
        return self.description.now

    @property
    def history(self) -> DemandHistory | None:
        """The past tenants from which demand is sampled; None if the engine samples none."""
        return self.description.history

    @property
    def held_out(self) -> Int:
        """The nodes that stay free for large tenants, as in `PlbConfig.held_out_nodes`."""
        return self.problem.held_out

    def node(self, index: int) -> Node:
        """Return a node as the user described it."""
        return self.description.nodes[index]

    def role_of(self, row: int) -> Role:
        """Return the role of a replica."""
        return Role(int(self.problem.role[row]))

    def service_of(self, row: int) -> Service:
        """Return the service of a replica as the user described it."""
        return self.description.services[int(self.problem.service[row])]

    def partition_of(self, row: int) -> str:
        """Return the name of the partition of a replica."""
        return self.description.partitions[row]

    def forecast_of(self, row: int) -> ReplicaForecast:
        """Return the demand of a replica, for risk models (`plb.risk.RiskModel`).

        A metric without load is zero. Without a promised limit, the limit is the largest demand so far, or the present
        load.

        Raises
        ------
        ConflictError
            If the configuration has no description.
        """
        table = self.description.replicas
        if table is None:
            raise ConflictError("configuration: it has no description, so nothing is known of its replicas")
        service, quanta = self.service_of(row), self.description.quanta
        names = [metric.name for metric in self.description.metrics]
        has_load = np.array([service.metrics is None or name in service.metrics for name in names]) & ~table.vacant[row]
        samples, seen = table.shown(np.array([row]))
        oldest_first = (samples[0, :, : int(seen[0])][:, ::-1] * quanta[:, np.newaxis]) * has_load[:, np.newaxis]
        demanded = table.largest_demand[row] * has_load
        largest = np.maximum(demanded, table.load[row] * quanta * has_load)
        metrics = zip(names, largest.tolist(), has_load.tolist(), strict=True)
        return ReplicaForecast(
            service.tenant_class,
            self.role_of(row),
            float(table.created[row]),
            dict(zip(names, demanded.tolist(), strict=True)),
            int(table.key[row]),
            samples=dict(zip(names, oldest_first, strict=True)),
            seen=int(seen[0]),
            limits={
                name: service.limits.get(name, demand) if has_this_load else 0.0
                for name, demand, has_this_load in metrics
            },
        )

    def relocations(self, proposal: Proposal) -> tuple[Relocation, ...]:
        """Return the replicas that a proposal moves, with their nodes before and after: one, or two in an exchange."""
        source = self.node_of(proposal.row)
        first = Relocation(proposal.row, source, proposal.target)
        if proposal.partner == NOWHERE:
            return (first,)
        return first, Relocation(proposal.partner, proposal.target, source)

    def from_its_node(self, proposal: Proposal) -> Proposal:
        """Return a proposal with the present node of its row as the source."""
        return proposal._replace(source=self.node_of(proposal.row))

    # what the search keeps

    @property
    def energy(self) -> float:
        """The energy of the built-in terms, from the incremental sums."""
        return float(present_energy(self.problem, self.solution))

    @property
    def violation_probabilities(self) -> Float:
        """The probability of a violation of each node, (N,), by the estimator of the engine.

        For `monte-carlo` it is the share of the repetitions, 0 without a demand history; for `historical-simulation`
        the share of the windows of the past; for peak predictors 0 or 1.
        """
        return np.asarray(self.solution.violating / self.problem.weights.repetitions, np.float64)

    def violation_probabilities_with(self, row: int) -> Float:
        """Return `violation_probabilities` of each node with the replica `row` on it besides its own, (N,)."""
        violating = np.zeros(self.nodes, np.int64)
        if self.problem.peak.shape[2]:
            count_violations_with(self.problem, self.solution, row, violating)
        return np.asarray(violating / self.problem.weights.repetitions, np.float64)

    def refusals(self, row: int, enforced: RuleMask = ALL_RULES) -> Int:
        """Return the first enforced rule that refuses a replica on each node, or NO_REFUSAL, (N,)."""
        refused = np.full(self.nodes, NO_REFUSAL)
        find_refusals(self.problem, self.solution, enforced, row, refused)
        return refused

    def nodes_for(self, row: int, enforced: RuleMask = ALL_RULES) -> Int:
        """Return the nodes, ascending, on which no enforced rule refuses a replica, without its own node."""
        allowed = self.refusals(row, enforced) == NO_REFUSAL
        if self.node_of(row) != NOWHERE:
            allowed[self.node_of(row)] = False
        return np.flatnonzero(allowed)

    def refusal(self, proposal: Proposal, enforced: RuleMask = ALL_RULES) -> Rule | None:
        """Return the first enforced rule that refuses a proposal, or None."""
        rule = refusal(self.problem, self.solution, enforced, self.from_its_node(proposal))
        return None if rule == NO_REFUSAL else Rule(rule)

    def apply(self, proposal: Proposal) -> Proposal:
        """Carry a proposal out and return the one that undoes it."""
        proposal = self.from_its_node(proposal)
        apply_proposal(self.problem, self.solution, proposal)
        return proposal.inverse

    def check(self) -> None:
        """Raise `CheckFailedError` if a sum differs from one computed from scratch."""
        compare_with_scratch(self.problem, self.solution, "check")


@attrs.frozen
class Admission:
    """Refuses a new replica on nodes where the probability of a violation would then reach a limit.

    Placed replicas and moves are not tested: the rules and the energy of the engine decide on them.
    """

    probability: float = 0.01
    """The limit, in (0, 1]: ρ of [2], θ of [1] section 8.3 (there 0.01). A peak predictor returns 0 or 1."""
    name: str = "admission"
    """Name of the constraint."""

    def __attrs_post_init__(self) -> None:
        item = f"constraint {check_name('constraint', self.name)}"
        limit = check_number(item, "probability", self.probability, high=1.0, low_open=True)
        object.__setattr__(self, "probability", limit)

    def refuses(self, configuration: Configuration, proposal: Proposal) -> bool:
        """Return whether a new replica would make a violation too likely on its node."""
        new = [move for move in configuration.relocations(proposal) if self._is_new(configuration, move.row)]
        targets = [move.target for move in new if move.target != NOWHERE]
        if not targets:
            return False
        inverse = configuration.apply(proposal)
        too_likely = bool((configuration.violation_probabilities[targets] >= self.probability).any())
        configuration.apply(inverse)
        return too_likely

    def broken(self, configuration: Configuration) -> Collection[int]:
        """Return the new replicas on nodes where a violation is too likely: they are not placed there."""
        probability = configuration.violation_probabilities
        return [
            int(row)
            for row in configuration.rows
            if self._is_new(configuration, row)
            and configuration.node_of(row) != NOWHERE
            and probability[configuration.node_of(row)] >= self.probability
        ]

    def _is_new(self, configuration: Configuration, row: int) -> bool:
        """Return whether a replica had no node before the search."""
        return bool(configuration.problem.origin[row] == NOWHERE)


class BuiltInTerm:
    """A built-in term, of a number in `TERMS_IN_ORDER`; its sums are part of every solution, so that it keeps none."""

    def __init__(self, number: int, description: TermDescription) -> None:
        self._number, self._description = number, description
        self.name = description.name

    def total(self, configuration: Configuration) -> float:
        """Return the term, computed from the nodes of the replicas alone."""
        problem = configuration.problem
        recomputed = solution_from_scratch(problem, configuration.solution.node.copy())
        if self._description.total is not None:
            return self._description.total(problem, recomputed)
        return float(values_of(recomputed)[self._number] / self._description.unit(problem))

    def delta(self, configuration: Configuration, proposal: Proposal) -> float:
        """Return the change of the term by a proposal as a search computes it: by formula if possible, or by trial."""
        problem, solution = configuration.problem, configuration.solution
        before = values_of(solution)[self._number]
        if problem.weights.plain_deviation:
            after = self._description.after(problem, solution, configuration.from_its_node(proposal))
        else:
            inverse = configuration.apply(proposal)
            after = values_of(solution)[self._number]
            configuration.apply(inverse)
        return float((after - before) / self._description.unit(problem))


TERMS = tuple(BuiltInTerm(number, term) for number, term in enumerate(TERMS_IN_ORDER))
"""The terms in the order of `plb.energy.terms.TERMS_IN_ORDER`."""


def built_in_term(name: str) -> BuiltInTerm:
    """Return the built-in energy term with this name."""
    return next(term for term in TERMS if term.name == name)
