"""Initialization, statistics and self-checks of the extensions of a chain."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import attrs
import numpy as np

from plb.array_types import Int
from plb.compiler import Callback, Stream, address_of, interrupts_deferred
from plb.errors import CheckFailedError, ExtensionError
from plb.extensions.configuration import Configuration
from plb.extensions.constraints import Constraint, count_in
from plb.extensions.energy_terms import (
    CompiledTerm,
    EnergyTerm,
    LocatedTerm,
    SummedTerm,
    VanishingTerm,
    begin,
    cost_at_node,
    delta,
    keeps_sums,
    tells_change,
)
from plb.extensions.kernel_data import (
    CONSTRAINT,
    COUNT_METHOD,
    NEIGHBOURHOOD,
    NO_VALUES,
    PROPOSE_METHOD,
    TERM,
    WithKernels,
    difference,
    errors_of,
    named,
)
from plb.extensions.neighbourhoods import AnyNeighbourhood, CompiledNeighbourhood, ProposedMoves, new_moves, write_moves
from plb.search.extension_kernels import (
    ALLOWED,
    APPLY,
    CHANGE,
    COUNT,
    IN_PYTHON,
    NEWLY_BROKEN,
    NO_KERNEL,
    NODE_COST,
    NOTE_BROKEN,
    NOTHING,
    PROPOSE,
    TEST,
    UNDO,
    ExtensionState,
    no_extension_state,
)
from plb.search.extensions import Extensions
from plb.search.result import new_tally
from plb.state.arrays import UNKNOWN, Problem, Proposal, Solution, moves_of

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
    """Answers of the chain's copies of terms, constraints and neighbourhoods.

    An error of an extension cannot pass through kernels: it is kept, all further answers are 0, and the caller of the
    kernel has to call `raise_error`. `sums`: of each constraint; `moves`: where neighbourhoods write theirs.
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
        self._broken_before: set[tuple[str, int]] = set()
        """Constraints, each with a row that broke it at the last NOTE_BROKEN."""
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
        """Return the answer of extension `index` to a `question`, such as CHANGE, on a proposal; 0 after an error.

        `row`, `target`, `partner`, `source` are the proposal. For PROPOSE, `target` is the seed of the random numbers;
        NOTE_BROKEN and NEWLY_BROKEN use no argument but `question`.
        """
        if self._error is not None:
            return 0.0
        try:
            if question == NOTE_BROKEN:
                self._broken_before = set(self._extensions.broken_by_name(self._configuration))
            elif question == NEWLY_BROKEN:
                return float(self._newly_broken())
            elif question == COUNT:
                self._recompute_sums(index)
            elif question == PROPOSE:
                return float(self._propose(index, row, seed=target))
            else:
                return self._answer_of_extension(question, index, Proposal(row, target, partner, source))
        except BaseException as error:  # also an interrupt by the user; raised by `raise_error`
            self._error = self._named(error, question, index)
        return 0.0

    def _answer_of_extension(self, question: int, index: int, proposal: Proposal) -> float:
        """Return the answer of constraint or term `index` to a `question` on a proposal, or on its target node."""
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
        """Return the error of an answer as one that names extension and method; `question`, `index`: what was asked."""
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
        """Write the moves that neighbourhood `index` proposes for replica `row` to `_moves`; return their number.

        `seed`: of the random numbers of this call.
        """
        neighbourhood, configuration = self._neighbourhoods[index], self._configuration
        assert not isinstance(neighbourhood, CompiledNeighbourhood)
        proposed = neighbourhood.propose(configuration, row, np.random.default_rng(seed))
        return write_moves(
            neighbourhood.name, proposed, len(configuration.solution.node), configuration.nodes, self._moves
        )

    def _recompute_sums(self, constraint: int) -> None:
        """Compute the sums of the constraint with this index from scratch."""
        correct_sums = self._extensions.sums_of(constraint, self._configuration)
        for present, correct in zip(self._sums[constraint], correct_sums, strict=True):
            np.copyto(present, correct)

    def _newly_broken(self) -> int:
        """Return the index of the first constraint that some replica breaks and did not at NOTE_BROKEN, or ALLOWED."""
        names = [constraint.name for constraint in self._extensions.constraints]
        broken = self._extensions.broken_by_name(self._configuration)
        return next((names.index(name) for name, row in broken if (name, row) not in self._broken_before), ALLOWED)


ANSWERING: Mapping[str, Any] = {"keep": SummedTerm, "node_cost": LocatedTerm, COUNT_METHOD: ()}
"""Which extensions in Python have a method for a kernel, if not all; sums of constraints are only with kernels."""
TOLERANCE = 1e-6
"""Largest allowed difference, relative and absolute, between a term and the sum of its changes."""


@attrs.frozen(eq=False)
class ChainExtensions:
    """The extensions of one chain."""

    state: ExtensionState
    """What its kernels use."""
    extensions: Extensions | None = None
    callbacks: ExtensionCallbacks | None = None
    """What answers them for extensions in Python, and finds constraints that several moves break together; None without
    any extension.
    """
    data: Sequence[Any] = ()
    """The data of the terms and then of the constraints, as their kernels get them."""
    sums: Sequence[Any] = ()
    """The sums of the terms and then of the constraints, as their kernels get them."""
    proposing: Sequence[Any] = ()
    """What the kernels of neighbourhoods get: the data of each, and the moves."""

    def calls(self) -> AbstractContextManager[None]:
        """Return a context for kernels that may call Python: Ctrl-C takes effect at its end, not lost in a callback."""
        return nullcontext() if self.callbacks is None else interrupts_deferred()

    def raise_error(self) -> None:
        """Raise the error of an extension that kernels have let pass, if there was one."""
        if self.callbacks is not None:
            self.callbacks.raise_error()
        if self.extensions is not None and self.state.unfit[0] != NOTHING:
            term = self.extensions.terms[int(self.state.unfit[0])]
            raise ExtensionError(TERM, term.name, "change", "it returned a number that is not finite")

    def finish(self) -> None:
        """Raise the error of an extension, if there was one, and count the refused and rejected proposals."""
        self.raise_error()
        if self.extensions is None:
            return
        refused = zip(
            (constraint.name for constraint in self.extensions.constraints), self.state.refused.tolist(), strict=True
        )
        rejected = zip((term.name for term in self.extensions.terms), self.state.rejected.tolist(), strict=True)
        self.extensions.refused.update({name: count for name, count in refused if count})
        self.extensions.rejected.update({name: count for name, count in rejected if count})


NO_EXTENSIONS = ChainExtensions(no_extension_state(new_tally()))
"""Those of every chain without any; kernels change nothing in it."""


def extensions_of_chain(extensions: Extensions | None, problem: Problem, start: Solution) -> ChainExtensions:
    """Return the extensions of one chain that begins at `start` and changes it, with sums of that solution."""
    if extensions is None:
        return NO_EXTENSIONS
    configuration = extensions.configuration(problem, start)
    terms, constraints = _begun_terms(extensions, configuration), extensions.constraints
    all_sums = [extensions.sums_of(index, configuration) for index in range(len(constraints))]
    terms_and_constraints: list[EnergyTerm | Constraint] = [*terms, *constraints]
    data = [_data_of(extensions, extension, configuration) for extension in terms_and_constraints]
    sums = [*(term.sums if isinstance(term, CompiledTerm) else NO_VALUES for term in terms), *all_sums]
    totals = extensions.totals(problem, start)
    value = np.array([totals[term.name] for term in terms], np.float64)
    # examples of the arguments of kernels, for whose types these are compiled
    at_proposal = [(problem, start, *data_and_sums, Proposal(0, 0)) for data_and_sums in zip(data, sums, strict=True)]
    counted = [(problem, *data_and_sums, 0, 0, 1) for data_and_sums in zip(data, sums, strict=True)]
    at_node = [(problem, start, *data_and_sums, 0) for data_and_sums in zip(data, sums, strict=True)]
    neighbourhoods, moves = extensions.new_neighbourhoods(), new_moves()
    proposing = [_data_of(extensions, neighbourhood, configuration) for neighbourhood in neighbourhoods]
    callbacks = ExtensionCallbacks(extensions, terms, all_sums, configuration, neighbourhoods, moves)
    state = ExtensionState(
        change=_addresses(terms, "change", float, at_proposal[: len(terms)]),
        keep=_addresses(terms, "keep", None, at_proposal[: len(terms)]),
        node_cost=_addresses(terms, "node_cost", float, at_node[: len(terms)]),
        weight=np.array([extensions.weights[term.name] for term in terms], np.float64),
        value=value,
        after=value.copy(),
        best=value.copy(),
        data=_pointers(terms, data[: len(terms)]),
        sums=_pointers(terms, sums[: len(terms)]),
        rejected=np.zeros(len(terms), np.int64),
        test=_addresses(constraints, "test", bool, at_proposal[len(terms) :]),
        adding=_addresses(constraints, COUNT_METHOD, None, counted[len(terms) :]),
        test_data=_pointers(constraints, data[len(terms) :]),
        test_sums=_pointers(constraints, all_sums),
        counted=np.full(len(constraints), moves_of(start)),
        refused=np.zeros(len(constraints), np.int64),
        **_neighbourhood_fields(neighbourhoods, proposing, moves, configuration),
        tally=new_tally(),
        python=np.array([callbacks.address]),
        running=np.full(7, NOTHING),
        vanishing=np.flatnonzero([isinstance(term, VanishingTerm) for term in terms]),
        unfit=np.full(1, NOTHING),
    )
    extensions.running.append(state.running)
    return ChainExtensions(state, extensions, callbacks, data, sums, (*proposing, moves))


def _neighbourhood_fields(
    neighbourhoods: Sequence[AnyNeighbourhood], data: Sequence[Any], moves: Any, configuration: Configuration
) -> dict[str, Int]:
    """Return the fields of `ExtensionState` on neighbourhoods by name.

    `data`: of each neighbourhood, as its kernel gets it; `moves`: scratch to which all of them write their moves.
    """
    problem, solution = configuration.problem, configuration.solution
    arguments = [(problem, solution, kernel_data, 0, Stream(0), moves) for kernel_data in data]
    return {
        "propose": _addresses(neighbourhoods, PROPOSE_METHOD, int, arguments),
        "propose_data": _pointers(neighbourhoods, data),
        "proposed_row": moves.row,
        "proposed_target": moves.target,
        "moves": np.array([address_of(moves)]),
    }


def _begun_terms(extensions: Extensions, configuration: Configuration) -> tuple[EnergyTerm, ...]:
    """Return copies of the terms for one chain, with the sums of its first configuration."""
    terms = extensions.new_terms()
    for term in terms:
        if isinstance(term, CompiledTerm):
            term.made = configuration.problem, extensions.data_of(term, configuration)
        with errors_of(TERM, term.name, "new_sums" if isinstance(term, CompiledTerm) else "begin"):
            begin(term, configuration)
    return terms


def _data_of(extensions: Extensions, extension: object, configuration: Configuration) -> Any:
    """Return the data of an extension as its kernels get them, or no values for an extension in Python."""
    return extensions.data_of(extension, configuration) if isinstance(extension, WithKernels) else NO_VALUES


def _pointers(extensions: Sequence[object], values: Sequence[Any]) -> Int:
    """Return the addresses of `values`, the data or sums of each extension; NO_KERNEL for one in Python."""
    pairs = zip(extensions, values, strict=True)
    addresses = [address_of(value) if isinstance(extension, WithKernels) else NO_KERNEL for extension, value in pairs]
    return np.array(addresses, np.int64)


def constraints_of(extensions: Extensions | None, problem: Problem, solution: Solution) -> ChainExtensions:
    """Return the extensions of a search that moves replicas in `solution` without an energy: the constraints only."""
    if extensions is None or not extensions.constraints:
        return NO_EXTENSIONS
    return extensions_of_chain(attrs.evolve(extensions, weights={}, terms=(), neighbourhoods=()), problem, solution)


def compare_extension_state(
    extensions: Extensions, problem: Problem, solution: Solution, chain: ChainExtensions, moment: str
) -> None:
    """Raise `CheckFailedError` if the value or a sum of an extension in `chain` is not as computed from scratch.

    `moment`: when this is checked, for the error.
    """
    recomputed = extensions_of_chain(attrs.evolve(extensions, running=[]), problem, solution)
    for index, term in enumerate(extensions.terms):
        present, correct = float(chain.state.value[index]), float(recomputed.state.value[index])
        if not math.isclose(present, correct, rel_tol=TOLERANCE, abs_tol=TOLERANCE):
            text = f"changes of energy term {term.name} add up to {present}, from scratch it is {correct}"
            raise CheckFailedError(f"{moment}: {text}")
    _follow_moves(chain, extensions, extensions.configuration(problem, solution))
    names = [*(f"energy term {term.name}" for term in extensions.terms)]
    names += [f"constraint {constraint.name}" for constraint in extensions.constraints]
    for name, present_sums, correct_sums in zip(names, chain.sums, recomputed.sums, strict=True):
        first_difference = difference(present_sums, correct_sums)
        if first_difference is not None:
            position, present_sum, correct_sum = first_difference
            text = f"sum {position} of {name} is {present_sum}, from scratch it is {correct_sum}"
            raise CheckFailedError(f"{moment}: {text}")


def _follow_moves(chain: ChainExtensions, extensions: Extensions, configuration: Configuration) -> None:
    """Bring the sums of the constraints up to date by the moves in the journal of the solution, as a kernel does."""
    moves, entries = moves_of(configuration.solution), len(configuration.solution.journal) - 1
    for index, constraint in enumerate(extensions.constraints):
        present, counted = chain.sums[len(extensions.terms) + index], int(chain.state.counted[index])
        if moves == UNKNOWN or moves - counted > entries:  # not all of them are known
            for present_array, correct_array in zip(present, extensions.sums_of(index, configuration), strict=True):
                np.copyto(present_array, correct_array)
            continue
        for move in range(counted, moves):
            entry = configuration.solution.journal[1 + move % entries].tolist()
            count_in(constraint, configuration, present, *entry)
    chain.state.counted[:] = moves


def _addresses(
    extensions: Sequence[object],
    method: str,
    returning: type | None,
    arguments: Sequence[tuple[Any, ...]],
) -> Int:
    """Return for each extension the address of its kernel `method`, or IN_PYTHON, or NO_KERNEL without such a method.

    `arguments`: examples for each extension, for whose types the kernel is compiled; `returning`: the result's type.
    """
    addresses = np.full(len(extensions), NO_KERNEL)
    for index, extension in enumerate(extensions):
        if not isinstance(extension, WithKernels):
            addresses[index] = IN_PYTHON if isinstance(extension, ANSWERING.get(method, object)) else NO_KERNEL
        elif getattr(extension, method) is not None:
            addresses[index] = extension.address_of(method, returning, arguments[index])
    return addresses
