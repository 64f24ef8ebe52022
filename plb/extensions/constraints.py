"""The interface of extension constraints: in plain Python, or with a kernel as their test."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, ClassVar, Protocol, runtime_checkable

from plb.compiler import Kernel
from plb.state.arrays import Problem, Solution
from plb.state.proposal import Proposal

if TYPE_CHECKING:
    from plb.extensions.configuration import Configuration


@runtime_checkable
class Constraint(Protocol):
    """Refuses proposals, and finds the replicas that break the constraint.

    The two methods have to agree: a proposal that is not refused breaks no further replica. Then a
    search never makes things worse, and a repair that moves broken replicas succeeds.
    """

    @property
    def name(self) -> str:
        """The name with which settings choose the constraint and plans count its refusals."""

    def refuses(self, configuration: Configuration, proposal: Proposal) -> bool:
        """Return whether a proposal must not be made.

        A replica may come from NOWHERE, if it is placed, or go there, if it is dropped. A swap of roles is an
        exchange. The promotion of a secondary without a primary is tested as a primary placed on its node.
        """

    def broken(self, configuration: Configuration) -> Collection[int]:
        """Return the rows of the replicas that break the constraint on their nodes."""


Test = Kernel[[Problem, Solution, Proposal], bool]


class CompiledConstraint:
    """Base of a constraint with a kernel; a subclass adds `name`, `test` and `broken`.

    Attributes
    ----------
    name
        The name with which settings choose the constraint and plans count its refusals.
    test
        Kernel: whether a proposal must not be made. Arguments: problem, solution, proposal, as in
        `plb.extensions.energy_terms.CompiledTerm`.
    """

    name: str
    test: ClassVar[Test]

    def refuses(self, configuration: Configuration, proposal: Proposal) -> bool:
        """Return whether a proposal must not be made."""
        problem, solution = configuration.problem, configuration.solution
        return bool(self.test(problem, solution, configuration.from_its_node(proposal)))
