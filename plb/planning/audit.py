"""Which nodes are overloaded and which constraints are broken in a solution, with names and numbers.

The verdicts follow docs/service-fabric.md and do not depend on whether a replica may move, unlike those of
`plb.search.breaches`. Names are used only for violations.
"""

from __future__ import annotations

from collections.abc import Iterable

from plb.constraints.named_solution import NamedSolution
from plb.constraints.rules import RULES_IN_ORDER
from plb.model.violations import Breach, BrokenConstraint, Violation
from plb.search.extensions import Extensions

ALWAYS_HARD = 0
"""The priority of the rules of which no setting has one."""


class Audit(NamedSolution):
    """Finds the violations of a solution."""

    def violations(self, extensions: Extensions | None, *, soft: bool) -> tuple[Violation, ...]:
        """Return all violations: overloaded nodes, broken constraints, then those of extensions.

        Parameters
        ----------
        soft
            Whether broken rules that are not hard are included.
        """
        broken: Iterable[tuple[str, int]] = ()
        if extensions is not None:  # which may change the solution
            broken = extensions.broken_by_name(extensions.configuration(self.problem, self.solution.copy()))
        of_extensions = (self.broken(name, row) for name, row in broken)
        return (*self.overloads(), *self.breaches(up_to=2 if soft else 0), *of_extensions)

    def breaches(self, *, up_to: int) -> list[Breach]:
        """Return the broken constraints other than capacity, rule by rule.

        Parameters
        ----------
        up_to
            The largest priority that counts: 0 for hard rules only.
        """
        requested = (one for one in RULES_IN_ORDER if 0 <= self.priorities.get(one.rule, ALWAYS_HARD) <= up_to)
        return [breach for rule in requested for breach in rule.breaches(self)]

    def overloads(self) -> list[Violation]:
        """Return the nodes in the statistics whose load has reached a violation threshold, by metric."""
        return [violation for rule in RULES_IN_ORDER for violation in rule.node_violations(self)]

    def broken(self, name: str, row: int) -> BrokenConstraint:
        """Return the verdict on a replica that breaks an extension constraint."""
        return BrokenConstraint(
            rule=name,
            partition=self.state.row_partition[row],
            role=self.role_of(row),
            node=self.node_of(row),
            index=row,
        )
