"""The built-in energy terms as objects, with the methods of extension terms, from increments and from scratch.

`total` computes a term from the nodes of the replicas alone: in plain NumPy if the formula is short, else by the
kernels that compute every sum from scratch (`plb.energy.from_scratch`). The search uses what `delta` uses. Property
tests show that they agree after any sequence of moves.
"""

from __future__ import annotations

from plb.energy.description import TermDescription
from plb.energy.from_scratch import solution_from_scratch
from plb.energy.terms import TERMS_IN_ORDER, values_of
from plb.extensions.configuration import Configuration, Proposal


class BuiltInTerm:
    """A built-in term; its sums are part of every solution, so that it keeps none."""

    def __init__(self, number: int, description: TermDescription) -> None:
        self._number, self._description = number, description
        self.name = description.name

    def total(self, configuration: Configuration) -> float:
        """Return the term, computed from the nodes of the replicas alone."""
        problem = configuration.problem
        recomputed = solution_from_scratch(problem, configuration.solution.node.copy())
        if self._description.total is not None:
            return self._description.total(problem, recomputed)
        return float(values_of(recomputed)[self._number] / self._description.unit(problem))

    def delta(self, configuration: Configuration, proposal: Proposal) -> float:
        """Return the change of the term by a proposal, as a search computes it: by trial where it tries."""
        problem, solution = configuration.problem, configuration.solution
        before = values_of(solution)[self._number]
        if problem.weights.plain_deviation:
            after = self._description.after(problem, solution, configuration.from_its_node(proposal))
        else:
            back = configuration.apply(proposal)
            after = values_of(solution)[self._number]
            configuration.apply(back)
        return float((after - before) / self._description.unit(problem))

    def begin(self, configuration: Configuration) -> None:
        """Do nothing: the configuration has the sums."""

    def apply(self, configuration: Configuration, proposal: Proposal) -> None:
        """Do nothing: the configuration changes the sums."""

    def undo(self, configuration: Configuration, proposal: Proposal) -> None:
        """Do nothing: the configuration changes the sums."""


TERMS = tuple(BuiltInTerm(number, term) for number, term in enumerate(TERMS_IN_ORDER))
"""The terms in the order of `plb.energy.terms.TERMS_IN_ORDER`."""


def built_in_term(name: str) -> BuiltInTerm:
    """Return a built-in term."""
    return next(term for term in TERMS if term.name == name)
