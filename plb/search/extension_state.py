"""Initialization, statistics and self-checks of the extensions of a chain."""

from __future__ import annotations

import math
from collections.abc import Sequence
from inspect import signature

import attrs
import numpy as np

from plb.array_types import Int
from plb.compiler import Kernel
from plb.errors import CheckFailedError, ExtensionError, InvalidValueError, KernelError
from plb.extensions.constraints import CompiledConstraint, Constraint
from plb.extensions.energy_terms import NO_SUMS, CompiledTerm, EnergyTerm, SummedTerm, begin
from plb.extensions.failures import CONSTRAINT, TERM, errors_of
from plb.search.extension_callbacks import ExtensionCallbacks
from plb.search.extension_kernels import IN_PYTHON, NO_KERNEL, NOTHING, ExtensionState, no_extension_state
from plb.search.extensions import Extensions
from plb.search.result import new_tally
from plb.state.arrays import Problem, Solution
from plb.state.proposal import Proposal

TOLERANCE = 1e-6
"""Largest allowed difference, relative and absolute, between a term and the sum of its changes."""


@attrs.frozen(eq=False)
class ChainExtensions:
    """The extensions of one chain.

    Parameters
    ----------
    state
        What its kernels use.
    callbacks
        What answers them for extensions in Python, and finds constraints that several moves break together; None
        without any extension.
    """

    state: ExtensionState
    extensions: Extensions | None = None
    callbacks: ExtensionCallbacks | None = None

    def raise_error(self) -> None:
        """Raise the error of an extension in Python, if there was one."""
        if self.callbacks is not None:
            self.callbacks.raise_error()

    def finish(self) -> None:
        """Raise the error of an extension, if there was one, and count the refused and rejected proposals."""
        self.raise_error()
        if self.extensions is None:
            return
        refused = zip((one.name for one in self.extensions.constraints), self.state.refused.tolist(), strict=True)
        rejected = zip((term.name for term in self.extensions.terms), self.state.rejected.tolist(), strict=True)
        self.extensions.refused.update({name: count for name, count in refused if count})
        self.extensions.rejected.update({name: count for name, count in rejected if count})


NO_EXTENSIONS = ChainExtensions(no_extension_state(new_tally()))
"""Those of every chain without any; kernels change nothing in it."""


def extensions_of_chain(extensions: Extensions | None, problem: Problem, start: Solution) -> ChainExtensions:
    """Return the extensions of one chain that begins at `start` and changes it."""
    if extensions is None:
        return NO_EXTENSIONS
    configuration = extensions.configuration(problem, start)
    terms, constraints = extensions.new_terms(), extensions.constraints
    for term in terms:
        with errors_of(TERM, term.name, "new_sums" if isinstance(term, CompiledTerm) else "begin"):
            begin(term, configuration)
    all_sums = [term.sums if isinstance(term, CompiledTerm) else NO_SUMS for term in terms]
    sums = np.zeros((len(terms), max(map(len, all_sums), default=0)), np.int64)
    for kept, of_term in zip(sums, all_sums, strict=True):
        kept[: len(of_term)] = of_term
    totals = extensions.totals(problem, start)
    value = np.array([totals[term.name] for term in terms], np.float64)
    move = Proposal(0, 0)
    callbacks = ExtensionCallbacks(extensions, terms, configuration)
    state = ExtensionState(
        change=_addresses(terms, "change", float, problem, start, NO_SUMS, move),
        keep=_addresses(terms, "keep", None, problem, start, NO_SUMS, move),
        weight=np.array([extensions.weights[term.name] for term in terms], np.float64),
        value=value,
        after=value.copy(),
        best=value.copy(),
        sums=sums,
        width=np.array([len(of_term) for of_term in all_sums], np.int64),
        rejected=np.zeros(len(terms), np.int64),
        test=_addresses(constraints, "test", bool, problem, start, move),
        refused=np.zeros(len(constraints), np.int64),
        tally=new_tally(),
        python=np.array([callbacks.address]),
        running=np.full(2, NOTHING),
    )
    extensions.running.append(state.running)
    return ChainExtensions(state, extensions, callbacks)


def constraints_of(extensions: Extensions | None, problem: Problem, solution: Solution) -> ChainExtensions:
    """Return the constraints for moves that change `solution` and do not weigh terms."""
    if extensions is None or not extensions.constraints:
        return NO_EXTENSIONS
    return extensions_of_chain(attrs.evolve(extensions, weights={}, terms=()), problem, solution)


def compare_extension_state(
    extensions: Extensions, problem: Problem, solution: Solution, extension_state: ExtensionState, moment: str
) -> None:
    """Raise `CheckFailedError` if a term's value or one of its sums differs from that computed from scratch."""
    recomputed = extensions_of_chain(attrs.evolve(extensions, running=[]), problem, solution).state
    for index, term in enumerate(extensions.terms):
        _compare_term(term.name, float(extension_state.value[index]), float(recomputed.value[index]), moment)
        width = extension_state.width[index]
        if not np.array_equal(extension_state.sums[index, :width], recomputed.sums[index, :width]):
            at = int(np.flatnonzero(extension_state.sums[index] != recomputed.sums[index])[0])
            kept, right = extension_state.sums[index, at], recomputed.sums[index, at]
            raise CheckFailedError(
                f"{moment}: sum {at} of energy term {term.name} is {kept}, from scratch it is {right}"
            )


def _compare_term(name: str, kept: float, right: float, moment: str) -> None:
    """Raise `CheckFailedError` if the sum of a term's changes differs from its value from scratch by > TOLERANCE."""
    if not math.isclose(kept, right, rel_tol=TOLERANCE, abs_tol=TOLERANCE):
        raise CheckFailedError(f"{moment}: changes of energy term {name} add up to {kept}, from scratch it is {right}")


def takes_parts_of_a_proposal(kernel: Kernel[..., object], arguments: int) -> bool:
    """Return whether a kernel has the arguments of former versions: row, target and partner instead of a proposal."""
    return len(signature(kernel.py_func).parameters) == arguments + 2


def _addresses(
    extensions: Sequence[EnergyTerm | Constraint],
    method: str,
    returning: type | None,
    *arguments: object,
) -> Int:
    """Return the address of each extension's kernel `method`, IN_PYTHON or NO_KERNEL.

    Raises
    ------
    InvalidValueError
        If an extension with kernels has something else there.
    ExtensionError
        If a kernel takes other arguments, or cannot be compiled for them.
    """
    found = np.full(len(extensions), NO_KERNEL)
    for index, one in enumerate(extensions):
        if not isinstance(one, (CompiledTerm, CompiledConstraint)):
            keeps_none = method == "keep" and not isinstance(one, SummedTerm)
            found[index] = NO_KERNEL if keeps_none else IN_PYTHON
            continue
        kernel = getattr(one, method)
        if kernel is None:
            continue
        if not isinstance(kernel, Kernel):
            raise InvalidValueError(one.name, method, kernel, "a function decorated with `plb.compiler.kernel`")
        kind = TERM if isinstance(one, CompiledTerm) else CONSTRAINT
        if takes_parts_of_a_proposal(kernel, len(arguments)):
            reason = f"{kernel} has to take a proposal, with its row, target, partner and source, as the last argument"
            raise ExtensionError(kind, one.name, method, reason)
        try:
            found[index] = kernel.address(returning, *arguments)
        except KernelError as error:
            raise ExtensionError(kind, one.name, method, str(error)) from error
    return found
