"""The interface of constraints that users add: in plain Python, or with a kernel as their test."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, ClassVar, Protocol, runtime_checkable

from plb.compiler import Kernel
from plb.state.arrays import Problem, Solution

if TYPE_CHECKING:
    from plb.extensions.configuration import Configuration, Proposal


@runtime_checkable
class Constraint(Protocol):
    """Says which proposals a search must not make, and which replicas stand where they should not.

    The two verbs have to agree: a proposal that is not refused breaks no replica that was not broken before. Then a
    search never makes things worse, and a repair that moves what is broken mends them.
    """

    @property
    def name(self) -> str:
        """The name under which settings choose the constraint and plans count its refusals."""
        ...

    def refuses(self, configuration: Configuration, proposal: Proposal) -> bool:
        """Return whether a proposal must not be made.

        A replica may come from NOWHERE, where it is placed, or go there, where it is dropped. A swap of roles is an
        exchange; a secondary that becomes a primary without one is asked about as a primary placed on its node.
        """
        ...

    def broken(self, configuration: Configuration) -> Collection[int]:
        """Return the rows of the replicas that break the constraint where they stand."""
        ...


Test = Kernel[[Problem, Solution, int, int, int], bool]


class CompiledConstraint:
    """Base of a constraint with a kernel; a class of its own adds `name`, `test` and `broken`.

    Attributes
    ----------
    name
        The name under which settings choose the constraint and plans count its refusals.
    test
        Kernel: whether a proposal must not be made. Arguments: problem, solution, row, target, partner, as in
        `plb.extensions.energy_terms.CompiledTerm`.
    """

    name: str
    test: ClassVar[Test]

    def refuses(self, configuration: Configuration, proposal: Proposal) -> bool:
        """Return whether a proposal must not be made."""
        problem, solution = configuration.problem, configuration.solution
        return bool(self.test(problem, solution, proposal.row, proposal.target, proposal.partner))
