"""Constraints of users whose test is a kernel, so that searches run at full speed."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from plb.compiler import Kernel
from plb.state.arrays import Problem, Solution

if TYPE_CHECKING:
    from plb.extensions.configuration import Configuration, Proposal

Test = Kernel[[Problem, Solution, int, int, int], bool]


class CompiledConstraint:
    """Base of a constraint with a kernel; a class of its own adds `name`, `test` and `broken`.

    Attributes
    ----------
    name
        The name under which settings choose the constraint and plans count its refusals.
    test
        Kernel: whether a proposal must not be made. Arguments: problem, solution, row, target, partner, as in
        `plb.extensions.compiled_terms.CompiledTerm`.
    """

    name: str
    test: ClassVar[Test]

    def refuses(self, configuration: Configuration, proposal: Proposal) -> bool:
        """Tell whether a proposal must not be made."""
        problem, solution = configuration.problem, configuration.solution
        return bool(self.test(problem, solution, proposal.row, proposal.target, proposal.partner))
