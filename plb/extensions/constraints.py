"""The interface of extension constraints: in plain Python, or with a kernel as their test."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

from plb.compiler import Kernel
from plb.errors import InvalidValueError
from plb.extensions.kernel_data import CONSTRAINT, NO_VALUES, WithKernels
from plb.state.arrays import UNKNOWN, Problem, Proposal, Solution, moves_of

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


class CompiledConstraint(WithKernels):
    """Base of a constraint with kernels; a subclass adds `name`, `test` and `broken`."""

    kind = CONSTRAINT
    test: ClassVar[Kernel[..., bool]]
    """Kernel: whether a proposal must not be made. Arguments: problem, solution, data, sums, proposal, as in
    `plb.extensions.energy_terms.CompiledTerm`.
    """
    count: ClassVar[Kernel[..., None] | None] = None
    """Kernel: adds a replica on a node to the sums `sign` times, 1 or -1. Arguments: problem, data, sums, row, node,
    sign. It is called for all moves, also for moves that a search tries, in their order but possibly later, so that it
    must not read the solution. None: there are no sums.
    """
    _followed: tuple[Problem, Solution, int] | None = None
    """The problem and the solution for which data and sums hold, and `moves_of` this solution then."""

    def __getstate__(self) -> Any:
        """Return the state of a copy, which begins anew: without the arrays of the configuration that was followed."""
        state: Any = super().__getstate__()
        if isinstance(state, dict):
            return {name: value for name, value in state.items() if name != "_followed"}
        return state

    def begin(self, configuration: Configuration) -> None:
        """Make data and sums of a configuration, unless the last ones are of the same problem, solution and moves."""
        self.check_sums()
        problem, solution = configuration.problem, configuration.solution
        moves, followed = moves_of(solution), self._followed
        if followed is None or followed[0] is not problem:
            self.data = self.checked_data(configuration)
        elif followed[1] is solution and (moves == followed[2] != UNKNOWN or not self.has_sums):
            return
        self.sums = self.checked_sums(configuration)
        self._followed = problem, solution, moves

    def check_sums(self) -> None:
        """Raise `InvalidValueError` unless there are both `count` and `new_sums`, or none of them."""
        if self.has_sums != (self.count is not None):
            allowed = "a kernel where there is a `new_sums`, and else None"
            raise InvalidValueError(f"{self.kind} {self.name}", "count", self.count, allowed)

    def refuses(self, configuration: Configuration, proposal: Proposal) -> bool:
        """Return whether a proposal must not be made."""
        self.begin(configuration)
        problem, solution = configuration.problem, configuration.solution
        test, complete = self.kernel_of("test"), configuration.from_its_node(proposal)
        return bool(test(problem, solution, self.data, self.sums, complete))


def sums_from_scratch(constraint: Constraint, configuration: Configuration) -> Any:
    """Return the sums of a constraint, computed from scratch; `NO_VALUES` for one without kernels."""
    if not isinstance(constraint, CompiledConstraint):
        return NO_VALUES
    constraint.check_sums()
    return constraint.checked_sums(configuration)


def count_in(constraint: Constraint, configuration: Configuration, sums: Any, row: int, node: int, sign: int) -> None:
    """Let a constraint add a replica on a node (`sign` 1) to its `sums`, if it has any, or take it away (-1)."""
    if isinstance(constraint, CompiledConstraint) and constraint.count is not None:
        count = constraint.kernel_of("count")
        count(configuration.problem, constraint.checked_data(configuration), sums, row, node, sign)
