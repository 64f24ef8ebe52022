"""What users add to one plan: energy terms and constraints of their own, and the placement policy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from copy import deepcopy

import attrs
import numpy as np

from plb.arrays import NOWHERE, Problem, Solution
from plb.configuration import Configuration, Proposal
from plb.constraints.compiled import CompiledConstraint
from plb.constraints.interface import Constraint
from plb.description import Description, describe
from plb.energy.compiled import CompiledTerm
from plb.energy.interface import EnergyTerm
from plb.plan import Energy, Proposals
from plb.policies.interface import PlacementPolicy
from plb.registry import own_constraint, own_term
from plb.risk.demand import DemandHistory
from plb.search.result import energy_of_solution
from plb.state import ClusterState
from plb.unplaced import Refused


@attrs.frozen(eq=False)
class Additions:
    """Terms with their weights, constraints, a policy, and what became of proposals because of them.

    Parameters
    ----------
    weights
        Weight of each term by name.
    terms
        The terms, in the order of the weights; chains work on copies.
    constraints
        The constraints, all of them hard.
    description
        The words behind the arrays.
    policy
        What decides instead of a search, or None.
    refused, rejected
        Proposals refused by each constraint, and rejected for the sake of each term.
    declined
        Rows that the policy would rather not place.
    """

    weights: Mapping[str, float]
    terms: tuple[EnergyTerm, ...]
    constraints: tuple[Constraint, ...]
    description: Description
    policy: PlacementPolicy | None = None
    refused: Counter[str] = attrs.field(factory=Counter)
    rejected: Counter[str] = attrs.field(factory=Counter)
    declined: set[int] = attrs.field(factory=set)

    @property
    def proposals(self) -> Proposals:
        """What they refused and rejected, to be added to what the built-in rules and terms did."""
        return Proposals(refused_by_rule=dict(self.refused), rejected_by_term=dict(self.rejected))

    def run_compiled(self, *, compound: bool) -> bool:
        """Tell whether compiled chains know all of them; a constraint is not asked by steps of several moves.

        Parameters
        ----------
        compound
            Whether a proposal may call for further moves.
        """
        terms = all(isinstance(term, CompiledTerm) for term in self.terms)
        return terms and all(isinstance(one, CompiledConstraint) and not compound for one in self.constraints)

    def configuration(self, problem: Problem, solution: Solution) -> Configuration:
        """Return a configuration of these arrays, with the words behind them."""
        return Configuration(problem, solution, self.description)

    def new_terms(self) -> tuple[EnergyTerm, ...]:
        """Return copies of the terms, for a chain that changes their sums."""
        return deepcopy(self.terms)

    def totals(self, problem: Problem, solution: Solution) -> dict[str, float]:
        """Return the terms of a solution by name, from scratch and without their weights."""
        configuration = self.configuration(problem, solution)
        return {term.name: float(term.total(configuration)) for term in self.terms}

    def weighted(self, values: Mapping[str, float]) -> float:
        """Return what values of the terms add to the energy."""
        return sum(weight * values[name] for name, weight in self.weights.items())

    def refusal(self, configuration: Configuration, proposal: Proposal) -> str | None:
        """Return the name of the first constraint that refuses a proposal, or None."""
        return next((one.name for one in self.constraints if one.refuses(configuration, proposal)), None)

    def broken(self, configuration: Configuration) -> dict[int, str]:
        """Return the rows that break a constraint where they stand, and the name of the first that each breaks."""
        found: dict[int, str] = {}
        for one in self.constraints:
            for row in one.broken(configuration):
                found.setdefault(int(row), one.name)
        return found

    def keeps(self, problem: Problem, before: Solution, after: Solution) -> bool:
        """Tell whether every row that breaks a constraint after a change broke one before it."""
        broken = [self.broken(self.configuration(problem, solution)).keys() for solution in (before, after)]
        return broken[1] <= broken[0]

    def eliminated(self, problem: Problem, solution: Solution, row: int, enforced: int) -> tuple[Refused, ...]:
        """Return, for a row that waits, how many nodes only a constraint of the user's own rules out."""
        configuration = self.configuration(problem, solution)
        counts: Counter[str] = Counter()
        for node in configuration.nodes_for(row, enforced).tolist() if self.constraints else ():
            if name := self.refusal(configuration, Proposal(row, node)):
                counts[name] += 1
        return tuple(Refused(name, nodes) for name, nodes in counts.items())


def additions_of(
    state: ClusterState, policy: PlacementPolicy | None, now: float, history: DemandHistory | None
) -> Additions | None:
    """Return what the settings add to a search, or None where they add nothing.

    Parameters
    ----------
    policy
        The engine's copy of the policy that the settings name.
    now, history
        See `Description`.
    """
    config = state.config
    if not config.own_terms and not config.own_constraints and policy is None:
        return None
    return Additions(
        dict(config.own_terms),
        tuple(own_term(name) for name in config.own_terms),
        tuple(own_constraint(name) for name in config.own_constraints),
        describe(state, now, history),
        policy,
    )


def energy_with(additions: Additions | None, problem: Problem, solution: Solution) -> Energy:
    """Return the energy of a solution, with the terms of the user's own."""
    energy = energy_of_solution(problem, solution)
    if additions is None:
        return energy
    own = additions.totals(problem, solution)
    return attrs.evolve(energy, total=energy.total + additions.weighted(own), own=own)


def moved_rows(before: Solution, after: Solution) -> list[int]:
    """Return the rows that stand on another node after a change."""
    return [int(row) for row in np.flatnonzero(before.node != after.node) if after.node[row] != NOWHERE]
