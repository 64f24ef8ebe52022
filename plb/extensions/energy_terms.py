"""The interface of energy terms: built-in ones, extensions, and extensions with kernels.

A term needs a `name` and a `total`. The other methods are for speed: without `delta` a change is the difference of
two totals, and `begin`, `apply` and `undo` are only for terms that keep sums. With `node_cost` the steps of several
moves begin where the term is large.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Protocol, TypeGuard, runtime_checkable

from plb.compiler import Kernel
from plb.errors import InvalidValueError
from plb.extensions.kernel_data import TERM, WithKernels
from plb.state.arrays import Proposal

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


@runtime_checkable
class LocatedTerm(EnergyTerm, Protocol):
    """A term that says which nodes are costly; larger neighbourhoods begin at replicas on these."""

    def node_cost(self, configuration: Configuration, node: int) -> float:
        """Return what a node contributes to the term, unweighted."""


SUM_METHODS = ("begin", "apply", "undo")


def keeps_sums(term: EnergyTerm) -> TypeGuard[SummedTerm]:
    """Return whether a term has the methods of a `SummedTerm`; faster than the check of the protocol."""
    return all(getattr(term, method, None) is not None for method in SUM_METHODS)


def tells_change(term: EnergyTerm) -> TypeGuard[IncrementalTerm]:
    """Return whether a term has the method of an `IncrementalTerm`; faster than the check of the protocol."""
    return getattr(term, "delta", None) is not None


def tells_node_cost(term: EnergyTerm) -> TypeGuard[LocatedTerm]:
    """Return whether a term has the method of a `LocatedTerm`; faster than the check of the protocol."""
    return getattr(term, "node_cost", None) is not None


def missing_methods(term: EnergyTerm) -> list[str]:
    """Return which methods of a `SummedTerm` a term lacks, if it has any of them."""
    missing = [method for method in SUM_METHODS if not hasattr(term, method)]
    return missing if len(missing) < len(SUM_METHODS) else []


def begin(term: EnergyTerm, configuration: Configuration) -> None:
    """Let a term compute the sums it keeps, if any."""
    if keeps_sums(term):
        term.begin(configuration)


def delta(term: EnergyTerm, configuration: Configuration, proposal: Proposal) -> float:
    """Return the change of a term by a proposal: from the term, or by trial."""
    proposal = configuration.from_its_node(proposal)
    if tells_change(term):
        return term.delta(configuration, proposal)
    before = term.total(configuration)
    inverse = configuration.apply(proposal)
    after = term.total(configuration)
    configuration.apply(inverse)
    return after - before


def cost_at_node(term: EnergyTerm, configuration: Configuration, node: int) -> float:
    """Return what a node contributes to a term that has begun with the configuration; 0 if it has no `node_cost`."""
    if isinstance(term, CompiledTerm):
        if term.node_cost is None:
            return 0.0
        node_cost = term.kernel_of("node_cost")
        return float(node_cost(configuration.problem, configuration.solution, term.data, term.sums, node))
    return term.node_cost(configuration, node) if tells_node_cost(term) else 0.0


def apply_proposal_of_terms(
    terms: tuple[EnergyTerm, ...], configuration: Configuration, proposal: Proposal
) -> Proposal:
    """Apply a proposal to the sums of the terms and the configuration; return the proposal that undoes it."""
    proposal = configuration.from_its_node(proposal)
    for term in terms:
        if keeps_sums(term):
            term.apply(configuration, proposal)
    return configuration.apply(proposal)


def take_back(
    terms: tuple[EnergyTerm, ...], configuration: Configuration, proposal: Proposal, inverse: Proposal
) -> None:
    """Undo the last applied proposal; `inverse` is the result of `apply_proposal_of_terms`."""
    configuration.apply(inverse)
    for term in terms:
        if keeps_sums(term):
            term.undo(configuration, proposal)


class CompiledTerm(WithKernels):
    """Base of a term with kernels; a subclass adds `name`, `total` and `change`.

    The kernels get the arrays of `plb.state.arrays` and a `plb.state.arrays.Proposal`: `row` goes from `source`,
    which may be NOWHERE, to `target`, and `partner`, unless it is NOWHERE, goes the other way. Loads are in quanta.
    `WithKernels` describes data and sums; a term without any gets `NO_VALUES` (`plb.extensions.kernel_data`).
    """

    kind = TERM
    change: ClassVar[Kernel[..., float]]
    """Kernel: the change of the term by a proposal. Arguments: problem, solution, data, sums, proposal. It is not
    called for a replica that is dropped.
    """
    keep: ClassVar[Kernel[..., None] | None] = None
    """Kernel with the same arguments: updates the sums, before the solution applies the proposal. With the inverse
    proposal it has to restore them, before the solution goes back. None: there are no sums.
    """
    node_cost: ClassVar[Kernel[..., float] | None] = None
    """Kernel: what a node contributes to the term, unweighted. Arguments: problem, solution, data, sums, node. Larger
    neighbourhoods begin at replicas on costly nodes. None: no node costs more.
    """

    def begin(self, configuration: Configuration) -> None:
        """Make the data, and compute the sums from scratch."""
        self.data = self.checked_data(configuration)
        if self.keep is not None and not self.has_sums:
            raise InvalidValueError(f"{self.kind} {self.name}", "new_sums", None, "sums for `keep` to bring up to date")
        self.sums = self.checked_sums(configuration)

    def delta(self, configuration: Configuration, proposal: Proposal) -> float:
        """Return the change of the term by a proposal."""
        problem, solution = configuration.problem, configuration.solution
        change, complete = self.kernel_of("change"), configuration.from_its_node(proposal)
        return float(change(problem, solution, self.data, self.sums, complete))

    def apply(self, configuration: Configuration, proposal: Proposal) -> None:
        """Update the sums, before the configuration applies the proposal."""
        if self.keep is not None:
            problem, solution = configuration.problem, configuration.solution
            keep, complete = self.kernel_of("keep"), configuration.from_its_node(proposal)
            keep(problem, solution, self.data, self.sums, complete)

    def undo(self, configuration: Configuration, proposal: Proposal) -> None:
        """Undo `apply` of the same proposal, as a chain does: by the inverse proposal."""
        if self.keep is not None:
            inverse = configuration.apply(proposal)
            self.apply(configuration, inverse)
            configuration.apply(inverse)


class VanishingTerm(CompiledTerm):
    """A term of the engine that is 0 in the result of a search, as its weight rises (`overload_price`)."""
