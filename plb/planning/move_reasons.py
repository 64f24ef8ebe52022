"""The reasons of the moves of a phase: broken constraints, evictions for other replicas, and energy terms."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from plb.array_types import NOWHERE
from plb.constraints.rules import REASONS_IN_ORDER, RULES_IN_ORDER
from plb.energy.terms import TERMS_IN_ORDER, energies_without, present_energy
from plb.model.move import Phase, Reason
from plb.model.plan import Energy
from plb.planning.audit import Audit
from plb.search.breaches import broken_rules
from plb.search.extensions import Extensions, energy_with
from plb.settings.extensions import ANNEALING
from plb.state.arrays import Solution


class MoveReasons:
    """The reasons of one phase.

    Parameters
    ----------
    before
        The solution at the start of the phase, with its violations.
    after
        The solution at its end.
    repaired
        Bit mask of the rules that the phase repairs: 0 for all phases but a constraint check.
    extensions
        Extension terms and constraints.
    """

    def __init__(
        self,
        phase: Phase,
        before: Audit,
        after: Solution,
        repaired: int,
        extensions: Extensions | None = None,
    ) -> None:
        self.phase, self.before, self.after, self.repaired = phase, before, after, repaired
        self._extensions = extensions
        self.problem, self.state = before.problem, before.state

    def of(self, row: int) -> Reason:
        """Return why a row on another node after the phase moved."""
        origin = int(self.before.solution.node[row])
        if origin == NOWHERE:
            return Reason(self.phase, "new replica")
        of_rule = self._broken(row) or self._followed(row)
        if of_rule is not None:
            return of_rule
        # a policy moves others only to free capacity, in every phase
        if self.phase is Phase.PLACEMENT or self.state.config.policy != ANNEALING:
            return Reason(self.phase, "eviction", self._name(origin), other=self._newcomer(origin))
        return self._lower_energy

    def _name(self, node: int) -> str:
        return self.state.nodes[node].name

    def _broken(self, row: int) -> Reason | None:
        """Return the rule that the row broke on its node, or that its node broke."""
        broken = broken_rules(self.problem, self.before.solution, self.repaired, row) if self.repaired else 0
        for one in REASONS_IN_ORDER:
            if broken >> one.rule & 1 and one.reason is not None:
                return one.reason(self.before, self.phase, row)
        return None

    def _followed(self, row: int) -> Reason | None:
        """Return the rule that makes the row follow another one."""
        reasons = (one.reason_to_follow(self.before, self.after, self.phase, row) for one in RULES_IN_ORDER)
        return next((reason for reason in reasons if reason is not None), None)

    def _newcomer(self, node: int) -> str | None:
        """Return the partition of a replica that was placed on `node` in this phase, a new one first."""
        before = self.before.solution.node
        came = (before != node) & (self.after.node == node)
        placed = came & (before == NOWHERE)
        rows = np.flatnonzero(placed if placed.any() else came).tolist()
        return self.state.row_partition[rows[0]] if rows else None

    @cached_property
    def _lower_energy(self) -> Reason:
        """The reason of a move that repairs nothing: the term with the largest decrease in this phase."""
        solutions = (self.before.solution, self.after)
        energies = [energy_with(self._extensions, self.problem, solution) for solution in solutions]
        term = self._driving_term(*energies)
        if term is None:
            return Reason(self.phase, "energy")
        described = next((one for one in TERMS_IN_ORDER if one.name == term), None)
        if described is not None and described.reason is not None:
            return described.reason(self.before, self.after, self.phase)
        numbers = {"before": energies[0].terms[term], "after": energies[1].terms[term]}
        return Reason(self.phase, "energy", numbers=numbers, term=term)

    def _driving_term(self, before: Energy, after: Energy) -> str | None:
        """Return the term without whose change the energy would be highest; None if no term decreased."""
        without = energies_without(self.problem, self.before.solution, self.after)
        present = present_energy(self.problem, self.after)
        extension_terms = {} if self._extensions is None else self._extensions.weights
        for name, weight in extension_terms.items():
            without[name] = present + weight * (before.extension_terms[name] - after.extension_terms[name])
        term = max(without, key=lambda one: without[one])
        return term if without[term] > present else None
