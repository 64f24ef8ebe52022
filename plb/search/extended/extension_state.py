"""Handing compiled terms and constraints of users to a chain, and taking stock of them after it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from plb.array_types import NOWHERE, Int
from plb.compiler import Kernel
from plb.errors import CheckFailedError, InvalidValueError, KernelError
from plb.extensions.compiled_constraints import CompiledConstraint
from plb.extensions.compiled_terms import NO_SUMS, CompiledTerm
from plb.search.annealed import new_tally
from plb.search.extended.compiled import NO_KERNEL, Carried, carried_by_none
from plb.search.extended.extensions import Additions
from plb.state.arrays import Problem, Solution

TOLERANCE = 1e-6
"""How far, relative to its size, a term may be off what its changes add up to."""


def carry_along(additions: Additions | None, problem: Problem, start: Solution) -> Carried:
    """Return what one chain carries along from `start`: all additions, which have to be compiled ones."""
    if additions is None:
        return carried_by_none(new_tally())
    configuration = additions.configuration(problem, start)
    terms = [term for term in additions.new_terms() if isinstance(term, CompiledTerm)]
    for term in terms:
        term.begin(configuration)
    constraints = [one for one in additions.constraints if isinstance(one, CompiledConstraint)]
    sums = np.zeros((len(terms), max((len(term.sums) for term in terms), default=0)), np.int64)
    for kept, term in zip(sums, terms, strict=True):
        kept[: len(term.sums)] = term.sums
    totals = additions.totals(problem, start)
    value = np.array([totals[term.name] for term in terms], np.float64)
    move = (0, 0, NOWHERE)
    return Carried(
        change=_addresses(terms, "change", float, problem, start, NO_SUMS, *move),
        keep=_addresses(terms, "keep", None, problem, start, NO_SUMS, *move),
        weight=np.array([additions.weights[term.name] for term in terms], np.float64),
        value=value,
        after=value.copy(),
        best=value.copy(),
        sums=sums,
        width=np.array([len(term.sums) for term in terms], np.int64),
        rejected=np.zeros(len(terms), np.int64),
        test=_addresses(constraints, "test", bool, problem, start, *move),
        refused=np.zeros(len(constraints), np.int64),
        tally=new_tally(),
    )


def note_refusals(additions: Additions, carried: Carried) -> None:
    """Add up what constraints refused, and what was rejected for the sake of terms."""
    refused = zip((one.name for one in additions.constraints), carried.refused.tolist(), strict=True)
    rejected = zip((term.name for term in additions.terms), carried.rejected.tolist(), strict=True)
    additions.refused.update({name: count for name, count in refused if count})
    additions.rejected.update({name: count for name, count in rejected if count})


def compare_carried(additions: Additions, problem: Problem, solution: Solution, carried: Carried, moment: str) -> None:
    """Raise `CheckFailedError` if what a term's changes add up to, or one of its sums, differs from scratch."""
    fresh = carry_along(additions, problem, solution)
    for index, term in enumerate(additions.terms):
        compare_term(term.name, float(carried.value[index]), float(fresh.value[index]), moment)
        width = carried.width[index]
        if not np.array_equal(carried.sums[index, :width], fresh.sums[index, :width]):
            at = int(np.flatnonzero(carried.sums[index] != fresh.sums[index])[0])
            kept, right = carried.sums[index, at], fresh.sums[index, at]
            raise CheckFailedError(
                f"{moment}: sum {at} of energy term {term.name} is {kept}, from scratch it is {right}"
            )


def compare_term(name: str, kept: float, right: float, moment: str) -> None:
    """Raise `CheckFailedError` if what the changes of a term add up to is off its value from scratch."""
    if not math.isclose(kept, right, rel_tol=TOLERANCE, abs_tol=TOLERANCE):
        raise CheckFailedError(f"{moment}: changes of energy term {name} add up to {kept}, from scratch it is {right}")


def _addresses(
    additions: Sequence[CompiledTerm | CompiledConstraint],
    verb: str,
    returning: type | None,
    *arguments: object,
) -> Int:
    """Return the address of each one's kernel for a verb; refuse what is none, or does not compile."""
    found = np.full(len(additions), NO_KERNEL)
    for index, one in enumerate(additions):
        kernel = getattr(one, verb)
        if kernel is None:
            continue
        if not isinstance(kernel, Kernel):
            raise InvalidValueError(one.name, verb, kernel, "a function decorated with `plb.compiler.kernel`")
        try:
            found[index] = kernel.address(returning, *arguments)
        except KernelError as error:
            raise InvalidValueError(one.name, verb, kernel, f"a kernel that Numba compiles: {error.reason}") from error
    return found
