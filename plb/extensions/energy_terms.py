"""The interface of energy terms: built-in ones, extensions, and extensions with kernels.

A term needs a `name` and a `total`. The other methods are for speed: without `delta` a change is the difference of
two totals, and `begin`, `apply` and `undo` are only for terms that keep sums.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Protocol, runtime_checkable

import numpy as np

from plb.array_types import Int
from plb.compiler import Kernel
from plb.errors import InvalidValueError
from plb.state.arrays import Problem, Solution
from plb.state.proposal import Proposal

if TYPE_CHECKING:
    from plb.extensions.configuration import Configuration


@runtime_checkable
class EnergyTerm(Protocol):
    """A part of the energy: lower is better."""

    @property
    def name(self) -> str:
        """The name under which settings choose the term and plans report it."""

    def total(self, configuration: Configuration) -> float:
        """Return the term of a configuration, computed from scratch."""


@runtime_checkable
class IncrementalTerm(EnergyTerm, Protocol):
    """A term that computes by how much a proposal would change it."""

    def delta(self, configuration: Configuration, proposal: Proposal) -> float:
        """Return the change of the term by a proposal."""


@runtime_checkable
class SummedTerm(EnergyTerm, Protocol):
    """A term that keeps sums during a search; each search has a copy of the term."""

    def begin(self, configuration: Configuration) -> None:
        """Compute the sums from scratch."""

    def apply(self, configuration: Configuration, proposal: Proposal) -> None:
        """Update the sums, before the configuration applies the proposal."""

    def undo(self, configuration: Configuration, proposal: Proposal) -> None:
        """Undo `apply` of the same proposal, after the configuration has undone it."""


SUM_METHODS = ("begin", "apply", "undo")


def missing_methods(term: EnergyTerm) -> list[str]:
    """Return which methods of a `SummedTerm` a term lacks, if it has any of them."""
    missing = [method for method in SUM_METHODS if not hasattr(term, method)]
    return missing if len(missing) < len(SUM_METHODS) else []


def begin(term: EnergyTerm, configuration: Configuration) -> None:
    """Let a term compute the sums it keeps, if any."""
    if isinstance(term, SummedTerm):
        term.begin(configuration)


def delta(term: EnergyTerm, configuration: Configuration, proposal: Proposal) -> float:
    """Return the change of a term by a proposal: from the term, or by trial."""
    proposal = configuration.from_its_node(proposal)
    if isinstance(term, IncrementalTerm):
        return term.delta(configuration, proposal)
    before = term.total(configuration)
    back = configuration.apply(proposal)
    after = term.total(configuration)
    configuration.apply(back)
    return after - before


def apply_proposal_of_terms(
    terms: tuple[EnergyTerm, ...], configuration: Configuration, proposal: Proposal
) -> Proposal:
    """Apply a proposal with the sums of the terms; return the proposal that undoes it."""
    proposal = configuration.from_its_node(proposal)
    for term in terms:
        if isinstance(term, SummedTerm):
            term.apply(configuration, proposal)
    return configuration.apply(proposal)


def take_back(terms: tuple[EnergyTerm, ...], configuration: Configuration, proposal: Proposal, back: Proposal) -> None:
    """Undo the last applied proposal; `back` is the result of `apply_proposal_of_terms`."""
    configuration.apply(back)
    for term in terms:
        if isinstance(term, SummedTerm):
            term.undo(configuration, proposal)


Change = Kernel[[Problem, Solution, Int, Proposal], float]
Keep = Kernel[[Problem, Solution, Int, Proposal], None]
NO_SUMS: Int = np.empty(0, np.int64)


class CompiledTerm:
    """Base of a term with kernels; a subclass adds `name`, `total` and `change`.

    The kernels get the arrays of `plb.state.arrays` and a `plb.state.proposal.Proposal`: `row` goes from `source`,
    which may be NOWHERE, to `target`, and `partner`, unless it is NOWHERE, goes the other way. Loads are in quanta.

    Attributes
    ----------
    name
        The name under which settings choose the term and plans report it.
    change
        Kernel: the change of the term by a proposal. Arguments: problem, solution, sums, proposal.
        It is not called for a replica that is dropped.
    keep
        Kernel with the same arguments: updates the sums, before the solution applies the proposal. With
        the inverse proposal it has to restore them, before the solution goes back. None: there are no sums.
    """

    name: str
    change: ClassVar[Change]
    keep: ClassVar[Keep | None] = None

    def __init__(self) -> None:
        self.sums: Int = NO_SUMS

    def new_sums(self, configuration: Configuration) -> Int:  # noqa: ARG002  # those of a class of its own use it
        """Return the sums of the kernels, computed from scratch: (W,) whole numbers of 64 bits."""
        return NO_SUMS

    def begin(self, configuration: Configuration) -> None:
        """Compute the sums from scratch; raise an error if they are not whole numbers, or if a `keep` has none."""
        item = f"energy term {self.name}"
        if self.keep is not None and type(self).new_sums is CompiledTerm.new_sums:
            raise InvalidValueError(item, "new_sums", None, "sums for `keep` to bring up to date")
        self.sums = _whole_numbers(item, self.new_sums(configuration))

    def delta(self, configuration: Configuration, proposal: Proposal) -> float:
        """Return the change of the term by a proposal."""
        problem, solution = configuration.problem, configuration.solution
        return float(self.change(problem, solution, self.sums, configuration.from_its_node(proposal)))

    def apply(self, configuration: Configuration, proposal: Proposal) -> None:
        """Update the sums, before the configuration applies the proposal."""
        if self.keep is not None:
            problem, solution = configuration.problem, configuration.solution
            self.keep(problem, solution, self.sums, configuration.from_its_node(proposal))

    def undo(self, configuration: Configuration, proposal: Proposal) -> None:
        """Undo `apply` of the same proposal, as a chain does: by the inverse proposal."""
        if self.keep is not None:
            back = configuration.apply(proposal)
            self.apply(configuration, back)
            configuration.apply(back)


def _whole_numbers(item: str, values: object) -> Int:
    """Return values as a flat array of 64 bits; raise an error if the conversion is not exact."""
    try:
        given = np.array(values)
        with np.errstate(invalid="ignore"):
            found: Int = given.astype(np.int64)
    except (TypeError, ValueError, OverflowError):
        given, found = np.empty(1), NO_SUMS
    if not np.array_equal(given, found):
        raise InvalidValueError(item, "new_sums", values, "whole numbers of 64 bits")
    return found.ravel()
