"""Extensions in plain Python, as the kernels of a chain call them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from plb.array_types import Int
from plb.compiler import Callback
from plb.extensions.configuration import Configuration
from plb.extensions.energy_terms import EnergyTerm, cost_at_node, delta, keeps_sums, tells_change
from plb.extensions.failures import CONSTRAINT, NEIGHBOURHOOD, TERM, named
from plb.extensions.neighbourhoods import AnyNeighbourhood, CompiledNeighbourhood, ProposedMoves, write_moves
from plb.search.extension_kernels import (
    ALLOWED,
    APPLY,
    CHANGE,
    COUNT,
    NEWLY_BROKEN,
    NODE_COST,
    NOTE_BROKEN,
    PROPOSE,
    TEST,
    UNDO,
)
from plb.search.extensions import Extensions
from plb.state.proposal import Proposal

METHODS = {
    CHANGE: "delta",
    APPLY: "apply",
    UNDO: "undo",
    TEST: "refuses",
    NODE_COST: "node_cost",
    PROPOSE: "propose",
}
"""The methods of one extension that answer questions."""


class ExtensionCallbacks:
    """Answers of the terms, constraints and neighbourhoods of one chain.

    An error of an extension cannot pass through kernels: it is kept, all further answers are 0, and the caller of the
    kernel has to call `raise_error`.

    Parameters
    ----------
    terms
        The chain's copies of the terms.
    sums
        The chain's sums of each constraint (`plb.extensions.kernel_data`).
    configuration
        The solution of the chain.
    neighbourhoods
        The chain's copies of the neighbourhoods.
    moves
        Where these write what they propose.
    """

    def __init__(
        self,
        extensions: Extensions,
        terms: Sequence[EnergyTerm],
        sums: Sequence[Sequence[Int]],
        configuration: Configuration,
        neighbourhoods: Sequence[AnyNeighbourhood],
        moves: ProposedMoves,
    ) -> None:
        self._extensions, self._terms, self._sums, self._configuration = extensions, terms, sums, configuration
        self._neighbourhoods, self._moves = neighbourhoods, moves
        self._known: set[tuple[str, int]] = set()
        self._error: BaseException | None = None
        self._callback = Callback(self._answer, 6)

    @property
    def address(self) -> int:
        """The address for `ExtensionState.python`."""
        return self._callback.address

    def raise_error(self) -> None:
        """Raise the error of an extension, if there was one."""
        if self._error is not None:
            raise self._error

    def _answer(self, question: int, index: int, row: int, target: int, partner: int, source: int) -> float:
        """Return the answer to a question of `plb.search.extension_kernels`; 0 after an error."""
        if self._error is not None:
            return 0.0
        try:
            if question == NOTE_BROKEN:
                self._known = set(self._extensions.broken_by_name(self._configuration))
            elif question == NEWLY_BROKEN:
                return float(self._newly_broken())
            elif question == COUNT:
                self._count_again(index)
            elif question == PROPOSE:
                return float(self._propose(index, row, seed=target))
            else:
                return self._answer_of_one(question, index, Proposal(row, target, partner, source))
        except BaseException as error:  # also an interrupt by the user; raised by `raise_error`
            self._error = self._named(error, question, index)
        return 0.0

    def _answer_of_one(self, question: int, index: int, proposal: Proposal) -> float:
        """Return the answer of one extension on a proposal, or on the node that is its target."""
        configuration = self._configuration
        if question == TEST:
            return float(self._extensions.constraints[index].refuses(configuration, proposal))
        term = self._terms[index]
        if question == CHANGE:
            change = float(delta(term, configuration, proposal))
            if not math.isfinite(change):
                raise ValueError(f"{change} is no finite number")
            return change
        if question == NODE_COST:
            return float(cost_at_node(term, configuration, proposal.target))
        assert keeps_sums(term)
        if question == APPLY:
            term.apply(configuration, proposal)
        elif question == UNDO:
            term.undo(configuration, proposal)
        return 0.0

    def _named(self, error: BaseException, question: int, index: int) -> BaseException:
        """Return an error of an answer as one that names the extension; `broken_by_name` does so itself."""
        if question not in METHODS:
            return error
        if question == TEST:
            return named(error, CONSTRAINT, self._extensions.constraints[index].name, METHODS[question])
        if question == PROPOSE:
            return named(error, NEIGHBOURHOOD, self._neighbourhoods[index].name, METHODS[question])
        term = self._terms[index]
        by_trial = question == CHANGE and not tells_change(term)
        return named(error, TERM, term.name, "total" if by_trial else METHODS[question])

    def _propose(self, index: int, row: int, seed: int) -> int:
        """Write the moves that a neighbourhood proposes; return their number."""
        one, configuration = self._neighbourhoods[index], self._configuration
        assert not isinstance(one, CompiledNeighbourhood)
        proposed = one.propose(configuration, row, np.random.default_rng(seed))
        return write_moves(one.name, proposed, len(configuration.solution.node), configuration.nodes, self._moves)

    def _count_again(self, index: int) -> None:
        """Compute the sums of a constraint from scratch."""
        for kept, right in zip(self._sums[index], self._extensions.sums_of(index, self._configuration), strict=True):
            np.copyto(kept, right)

    def _newly_broken(self) -> int:
        """Return the index of the first constraint that is newly broken, or ALLOWED."""
        names = [one.name for one in self._extensions.constraints]
        broken = self._extensions.broken_by_name(self._configuration)
        return next((names.index(name) for name, row in broken if (name, row) not in self._known), ALLOWED)
