"""The reasons of the moves of a phase: broken constraints, evictions for other replicas, and energy terms."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from plb.array_types import NOWHERE, Int
from plb.constraints.rules import REASONS_IN_ORDER, RULES_IN_ORDER
from plb.energy.terms import TERMS_IN_ORDER, energies_without, present_energy
from plb.model.move import Phase, Reason
from plb.model.plan import Energy
from plb.planning.audit import Audit
from plb.search.breaches import note_broken_rules
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

    def of(self, rows: Int) -> dict[int, Reason]:
        """Return why rows that were placed, (m,), and are on other nodes after the phase, moved."""
        followed = [one.reasons_to_follow(self.before, self.after, self.phase, rows) for one in RULES_IN_ORDER]
        reasons = {row: reason for of_rule in reversed(followed) for row, reason in of_rule.items()}
        reasons.update(self._of_broken_rules(rows))
        others = [row for row in rows.tolist() if row not in reasons]
        if not others:
            return reasons
        # a policy moves others only to free capacity, in every phase
        if self.phase is Phase.PLACEMENT or self.state.config.policy != ANNEALING:
            return reasons | {row: self._eviction(int(self.before.solution.node[row])) for row in others}
        return reasons | dict.fromkeys(others, self._lower_energy)

    def _of_broken_rules(self, rows: Int) -> dict[int, Reason]:
        """Return the reasons of the rows that broke a rule on their nodes, or whose nodes broke one."""
        if not self.repaired:
            return {}
        broken = np.zeros(len(rows), np.int64)
        note_broken_rules(self.problem, self.before.solution, self.repaired, rows, broken)
        found = ((row, self._of_rules(row, rules)) for row, rules in zip(rows.tolist(), broken.tolist(), strict=True))
        return {row: reason for row, reason in found if reason is not None}

    def _of_rules(self, row: int, broken: int) -> Reason | None:
        """Return the reason by the first rule of a bit mask that has one."""
        for one in REASONS_IN_ORDER if broken else ():
            if broken >> one.rule & 1 and one.reason is not None:
                return one.reason(self.before, self.phase, row)
        return None

    def _eviction(self, node: int) -> Reason:
        """Return the reason of a move from a node to which others have come."""
        newcomer = self._newcomers.get(node)
        other = None if newcomer is None else self.state.row_partition[newcomer]
        return Reason(self.phase, "eviction", self.state.nodes[node].name, other=other)

    @cached_property
    def _newcomers(self) -> dict[int, int]:
        """The first row that came to each node in this phase, a new one if there is any."""
        before, after = self.before.solution.node, self.after.node
        came = np.flatnonzero((before != after) & (after != NOWHERE))
        came = came[np.argsort(before[came] != NOWHERE, kind="stable")]
        return dict(zip(after[came[::-1]].tolist(), came[::-1].tolist(), strict=True))

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
