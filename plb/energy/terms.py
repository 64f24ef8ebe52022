"""The list of the terms: whoever combines, compares or reports terms loops over it, and names none.

Kernels cannot loop over functions, so each kernel here has a line for each term.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from plb.array_types import Bool, Float
from plb.compiler import kernel
from plb.energy import expected_failovers, expected_overload, fragmentation, imbalance, movement
from plb.energy.node_sums import change_aggregate, may_lower_target
from plb.energy.score import UNITS, TermDescription, TermValues, energy_of
from plb.model.plan import Energy
from plb.settings.config import Combination, PlbConfig
from plb.state.arrays import Problem, Proposal, Solution

TERMS_IN_ORDER: tuple[TermDescription, ...] = (
    movement.DESCRIPTION,
    imbalance.DESCRIPTION,
    fragmentation.DESCRIPTION,
    expected_failovers.DESCRIPTION,
    expected_overload.DESCRIPTION,
)
"""All terms in the order of `TermValues`; a term's number is its position."""
TERM_NAMES = tuple(term.name for term in TERMS_IN_ORDER)
_MOVEMENT, _IMBALANCE, _FRAGMENTATION, _EXPECTED_FAILOVERS, _EXPECTED_OVERLOAD = range(5)
BY_TRIAL = _IMBALANCE
"""The number of the term to which a rejection is ascribed where only the energy is known."""


@kernel(inline=True)
def present_values(solution: Solution) -> TermValues:
    """Return the values of all terms in the present solution, for kernels; `values_of` is for Python."""
    return TermValues(
        solution.totals.movement,
        solution.totals.imbalance,
        solution.totals.fragmentation,
        solution.totals.expected_failovers,
        solution.totals.expected_overload,
    )


@kernel(inline=True)
def present_energy(problem: Problem, solution: Solution) -> float:
    """Return the energy of the present solution."""
    return energy_of(problem.weights, present_values(solution))


@kernel(inline=True)
def write_energy_and_values(problem: Problem, solution: Solution, energy: Float) -> None:
    """Write the energy of the present solution, then its `TermValues`, to `energy`, (1 + terms,)."""
    values = present_values(solution)
    energy[0] = energy_of(problem.weights, values)
    energy[1 + _MOVEMENT] = values.movement
    energy[1 + _IMBALANCE] = values.imbalance
    energy[1 + _FRAGMENTATION] = values.fragmentation
    energy[1 + _EXPECTED_FAILOVERS] = values.expected_failovers
    energy[1 + _EXPECTED_OVERLOAD] = values.expected_overload


def values_of(solution: Solution) -> TermValues:
    """Return the terms of the present solution, for Python, which gets no named tuple from a kernel."""
    values = dict(zip(solution.totals.names(), solution.totals.item(), strict=True))
    return TermValues(**{name: values[name] for name in TermValues._fields})


@kernel
def without_peaks(problem: Problem, solution: Solution, proposal: Proposal) -> TermValues:
    """Return the terms after a proposal, but with the present violations and overload.

    The imbalance too is the present one if it has no weight.
    """
    deviation = solution.totals.imbalance
    if problem.weights.imbalance != 0.0 or problem.weights.product_form:
        deviation = imbalance.after(problem, solution, proposal)
    return TermValues(
        movement.after(problem, solution, proposal),
        deviation,
        fragmentation.after(problem, solution, proposal),
        solution.totals.expected_failovers,
        solution.totals.expected_overload,
    )


@kernel
def with_least(problem: Problem, solution: Solution, values: TermValues, proposal: Proposal) -> TermValues:
    """Return the terms after a proposal, with lower bounds of violations and overload.

    `values`: the other terms after the proposal.
    """
    return _with_peaks(
        values,
        expected_failovers.least_after(problem, solution, proposal),
        expected_overload.least_after(problem, solution, proposal),
    )


@kernel
def with_source(problem: Problem, solution: Solution, values: TermValues, proposal: Proposal) -> TermValues:
    """Return the terms after a proposal, with violations and overload of its source added to their lower bounds.

    `values`: result of `with_least`.
    """
    return _with_peaks(
        values,
        values.expected_failovers + expected_failovers.at_source(problem, solution, proposal),
        values.expected_overload + expected_overload.at_source(problem, solution, proposal),
    )


@kernel
def with_target(problem: Problem, solution: Solution, values: TermValues, proposal: Proposal) -> TermValues:
    """Return the exact terms after a proposal: `values`, of `with_source`, plus what the peaks on its target cause."""
    violations, overload = values.expected_failovers, values.expected_overload
    if not may_lower_target(problem, proposal.partner):
        violations -= solution.violating[proposal.target]
        overload -= solution.overload[proposal.target]
    return _with_peaks(
        values,
        violations + expected_failovers.at_target(problem, solution, proposal),
        overload + expected_overload.at_target(problem, solution, proposal),
    )


@kernel
def _with_peaks(values: TermValues, violations: int, overload: int) -> TermValues:
    """Return `values` with these `violations` and this `overload` instead of their own."""
    return TermValues(values.movement, values.imbalance, values.fragmentation, violations, overload)


@kernel
def energy_without(problem: Problem, before: TermValues, after: TermValues, term: int) -> float:
    """Return the energy of the terms `after`, but with the term of number `term` as it was `before`."""
    return energy_of(
        problem.weights,
        TermValues(
            before.movement if term == _MOVEMENT else after.movement,
            before.imbalance if term == _IMBALANCE else after.imbalance,
            before.fragmentation if term == _FRAGMENTATION else after.fragmentation,
            before.expected_failovers if term == _EXPECTED_FAILOVERS else after.expected_failovers,
            before.expected_overload if term == _EXPECTED_OVERLOAD else after.expected_overload,
        ),
    )


@kernel
def worst_term(problem: Problem, before: TermValues, after: TermValues) -> int:
    """Return the number of the term that increased the energy most: without its change the energy would be lowest."""
    worst = 0
    lowest = energy_without(problem, before, after, 0)
    for term in range(1, len(before)):
        without = energy_without(problem, before, after, term)
        if without < lowest:
            worst, lowest = term, without
    return worst


@kernel
def apply_before_rows(problem: Problem, solution: Solution, proposal: Proposal) -> None:
    """Update all terms but the imbalance for a proposal whose rows have yet to move."""
    movement.apply(problem, solution, proposal)
    fragmentation.apply(problem, solution, proposal)
    if problem.peak.shape[2] > 0:
        expected_failovers.apply(problem, solution, proposal)
        expected_overload.apply(problem, solution, proposal)


@kernel
def apply_after_rows(problem: Problem, solution: Solution) -> None:
    """Update the imbalance, after the rows of a proposal have moved."""
    imbalance.apply(problem, solution)


@kernel
def add_to_terms(problem: Problem, solution: Solution, row: int, node: int, sign: int) -> None:
    """Add `sign` times the load and the peaks of replica `row` to the sums of `node` that terms need."""
    add_load_to_terms(problem, solution, row, node, sign)
    change_aggregate(solution.aggregate, solution.ceiling, node, problem.peak[row], problem.peak_ceiling[row], sign)


@kernel
def add_load_to_terms(problem: Problem, solution: Solution, row: int, node: int, sign: int) -> None:
    """Add `sign` times the load of replica `row` to the sums of `node` that terms need."""
    imbalance.add(problem, solution, row, node, sign)


@kernel
def cost_of_node(problem: Problem, solution: Solution, node: int) -> float:
    """Return what imbalance, violations and overload of a node contribute to the additive energy.

    In the product form it is only a measure of which node costs most.
    """
    weights = problem.weights
    violations = solution.violating[node] if problem.counted[node] else 0
    return float(
        weights.imbalance * imbalance.of_node(problem, solution, node)
        + weights.expected_failovers * (violations / weights.repetitions)
        + weights.expected_overload * (solution.overload[node] / (UNITS * weights.columns))
    )


def new_sums(problem: Problem) -> dict[str, Any]:
    """Return the arrays that the terms keep in `Solution`, by name, all 0; unused arrays have size 0."""
    return {name: array for term in TERMS_IN_ORDER for name, array in term.new_sums(problem).items()}


@kernel
def add_rows(problem: Problem, solution: Solution) -> None:
    """Compute the sums of movement and imbalance, which are 0 before, from the nodes of rows and the loads of nodes."""
    movement.from_scratch(problem, solution)
    imbalance.from_scratch(problem, solution)


def count_again(problem: Problem, solution: Solution, stale: Bool) -> None:
    """Compute violations and overload of the nodes in `stale`, (N,), from the sums of the peaks on them."""
    expected_failovers.count_again(problem, solution, stale)
    expected_overload.count_again(problem, solution, stale)


@kernel
def sum_up(problem: Problem, solution: Solution) -> None:
    """Compute all terms but the movement from the sums of each node."""
    fragmentation.from_scratch(problem, solution)
    solution.totals.expected_failovers = solution.violating.sum()
    solution.totals.expected_overload = solution.overload.sum()
    imbalance.apply(problem, solution)


def energy_of_solution(problem: Problem, solution: Solution) -> Energy:
    """Return the energy of a solution and its terms, as users see them."""
    terms_with_values = zip(TERMS_IN_ORDER, values_of(solution), strict=True)
    by_name: dict[str, Any] = {term.name: float(value / term.unit(problem)) for term, value in terms_with_values}
    return Energy(total=float(present_energy(problem, solution)), **by_name)


def energies_without(problem: Problem, before: Solution, after: Solution) -> dict[str, float]:
    """Return by name of each term that may be a reason to move the energy `after`, with this term as `before`."""
    values = values_of(before), values_of(after)
    return {
        term.name: energy_without(problem, *values, number)
        for number, term in enumerate(TERMS_IN_ORDER)
        if term.drives_moves
    }


def weighted_terms(config: PlbConfig, energy: Energy) -> Mapping[str, float]:
    """Return the summand of each term of an energy, if terms are summed; otherwise the terms without weights."""
    if config.combination is not Combination.ADDITIVE:
        return energy.terms
    weights = {term.name: term.weight(config) for term in TERMS_IN_ORDER} | dict(config.extension_terms)
    return {name: weights[name] * value for name, value in energy.terms.items()}
