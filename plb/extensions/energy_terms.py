"""What an energy term is: the built-in ones, and those that a user writes (design section 6).

A term needs a `name` and a `total`. The other verbs are there for speed: without `delta` a change is the difference of
two totals, and `begin`, `apply` and `undo` are only for terms that keep sums of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from plb.extensions.configuration import Configuration, Proposal


@runtime_checkable
class EnergyTerm(Protocol):
    """A part of the energy: lower is better."""

    @property
    def name(self) -> str:
        """The name under which settings choose the term and plans report it."""
        ...

    def total(self, configuration: Configuration) -> float:
        """Return the term of a configuration, computed from scratch."""
        ...


@runtime_checkable
class IncrementalTerm(EnergyTerm, Protocol):
    """A term that knows by how much a proposal would change it."""

    def delta(self, configuration: Configuration, proposal: Proposal) -> float:
        """Return by how much a proposal would change the term."""
        ...


@runtime_checkable
class SummedTerm(EnergyTerm, Protocol):
    """A term that keeps sums of its own while a search goes on; each search has a copy of the term."""

    def begin(self, configuration: Configuration) -> None:
        """Form the sums anew."""
        ...

    def apply(self, configuration: Configuration, proposal: Proposal) -> None:
        """Bring the sums up to date, before the configuration carries the proposal out."""
        ...

    def undo(self, configuration: Configuration, proposal: Proposal) -> None:
        """Take `apply` of the same proposal back, after the configuration has taken the proposal back."""
        ...


SUM_VERBS = ("begin", "apply", "undo")


def missing_verbs(term: EnergyTerm) -> list[str]:
    """Return which of the verbs of a term that keeps sums it lacks, if it has any of them."""
    missing = [verb for verb in SUM_VERBS if not hasattr(term, verb)]
    return missing if len(missing) < len(SUM_VERBS) else []


def begin(term: EnergyTerm, configuration: Configuration) -> None:
    """Let a term form the sums it keeps, if any."""
    if isinstance(term, SummedTerm):
        term.begin(configuration)


def delta(term: EnergyTerm, configuration: Configuration, proposal: Proposal) -> float:
    """Return by how much a proposal would change a term: as it says, or by trial."""
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
    """Carry a proposal out with the sums that terms keep; return the proposal that takes it back."""
    for term in terms:
        if isinstance(term, SummedTerm):
            term.apply(configuration, proposal)
    return configuration.apply(proposal)


def take_back(terms: tuple[EnergyTerm, ...], configuration: Configuration, proposal: Proposal, back: Proposal) -> None:
    """Take a proposal back that was the last one carried out; `back` is what `apply_proposal_of_terms` returned."""
    configuration.apply(back)
    for term in terms:
        if isinstance(term, SummedTerm):
            term.undo(configuration, proposal)
