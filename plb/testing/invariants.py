"""What must hold of an energy term, a constraint or a risk model, by name."""

from __future__ import annotations

import math
from copy import deepcopy
from enum import Enum

from plb.array_types import NOWHERE
from plb.energy.from_scratch import solution_from_scratch
from plb.extensions.configuration import Configuration, Proposal
from plb.extensions.constraints import Constraint
from plb.extensions.energy_terms import EnergyTerm, apply_proposal_of_terms, begin, delta


class Invariant(Enum):
    """What a state machine checks; the value is how a failure names it."""

    INCREMENT = "increment equals total"
    """The change that a term foretells is the difference of its totals, and sums follow the moves."""
    UNDO = "undo restores"
    """After a proposal is taken back, everything is as before it."""
    ORDER = "order does not matter"
    """The same places reached by moves in another order give the same value."""
    ASKING = "asking changes nothing"
    """No replica moves while a term or a constraint evaluates a proposal."""
    NODES = "relabelling nodes does not matter"
    REPLICAS = "relabelling replicas does not matter"
    SCALE = "scale does not matter"
    """Loads and capacities in units half as large give the same value."""
    AGREEMENT = "refusals agree with what is broken"
    """A proposal that a constraint allows breaks nothing new; one that it refuses would leave something broken."""
    RANGE = "a probability is between 0 and 1"
    REPEATS = "the same question has the same answer"
    EMPTY = "an empty node is safe"
    MORE_REPLICAS = "another replica never lowers the risk"
    HIGHER_THRESHOLD = "a higher threshold never raises the risk"


LABELS = (Invariant.NODES, Invariant.REPLICAS, Invariant.SCALE)
OF_TERMS = (Invariant.INCREMENT, Invariant.ASKING, Invariant.UNDO, Invariant.ORDER, *LABELS)
OF_CONSTRAINTS = (Invariant.INCREMENT, Invariant.AGREEMENT, Invariant.ASKING, Invariant.UNDO, *LABELS)
OF_RISK_MODELS = (
    Invariant.RANGE,
    Invariant.REPEATS,
    Invariant.ORDER,
    Invariant.EMPTY,
    Invariant.MORE_REPLICAS,
    Invariant.HIGHER_THRESHOLD,
)

TOLERANCE = 1e-9
"""Largest difference, relative to the larger of the values and 1, at which two values are the same."""


class BrokenInvariantError(AssertionError):
    """Something does not hold that should.

    Parameters
    ----------
    invariant
        What does not hold.
    story
        What was found instead, with the numbers.
    """

    def __init__(self, invariant: Invariant, story: str) -> None:
        super().__init__(invariant, story)
        self.invariant, self.story = invariant, story

    def __str__(self) -> str:
        return f"{self.invariant.value}: {self.story}"


def same(one: float, other: float, size: float = 1.0) -> bool:
    """Return whether two values of a term agree; `size` is that of the values they come from, if these are larger."""
    largest = max(abs(one), abs(other), abs(size), 1.0)
    return math.isfinite(one) and math.isfinite(other) and abs(one - other) <= TOLERANCE * largest


def begun(term: EnergyTerm, configuration: Configuration) -> EnergyTerm:
    """Return a copy of a term with the sums of a configuration."""
    recomputed = deepcopy(term)
    begin(recomputed, configuration)
    return recomputed


def value_from_scratch(term: EnergyTerm, configuration: Configuration) -> float:
    """Return the value of a configuration from a new copy of a term."""
    return float(begun(term, configuration).total(configuration))


def check_increment(term: EnergyTerm, configuration: Configuration, before: float, proposal: Proposal) -> None:
    """Compare the change that a term returns for a proposal with its totals; a correct term changes nothing.

    `before` is the value of the configuration from scratch.
    """
    twin = copy_of(configuration)
    predicted = float(delta(term, configuration, proposal))
    twin.apply(proposal)
    after = value_from_scratch(term, twin)
    if not same(predicted, after - before, max(abs(before), abs(after))):
        raise BrokenInvariantError(
            Invariant.INCREMENT,
            f"delta says {predicted:.9g} for {text_of_proposal(proposal)}, "
            f"but the total goes from {before:.9g} to {after:.9g}",
        )


def check_total(term: EnergyTerm, configuration: Configuration, right: float, invariant: Invariant) -> None:
    """Compare the total of a term after moves with that of a new copy, `right`."""
    kept = float(term.total(configuration))
    if not same(kept, right):
        raise BrokenInvariantError(invariant, f"total says {kept:.9g}, from scratch it is {right:.9g}")


def check_order(term: EnergyTerm, configuration: Configuration, right: float, first: int) -> None:
    """Go from the start to the present places by single moves in the order of rows, starting with `first`; compare.

    `right` is the value of the present places from scratch.
    """
    problem = configuration.problem
    twin = Configuration(problem, solution_from_scratch(problem, problem.origin.copy()), configuration.description)
    term = begun(term, twin)
    changed = [int(row) for row in configuration.rows if configuration.node_of(row) != twin.node_of(row)]
    rows = [row for row in changed if configuration.node_of(row) != NOWHERE]
    for row in sorted(set(changed) - set(rows)):
        apply_proposal_of_terms((term,), twin, Proposal(row, NOWHERE))
    summed = float(term.total(twin))
    first = first % len(rows) if rows else 0
    for row in rows[first:] + rows[:first]:
        move = Proposal(row, configuration.node_of(row))
        summed += float(delta(term, twin, move))
        apply_proposal_of_terms((term,), twin, move)
    if not (same(summed, right) and same(float(term.total(twin)), right)):
        story = f"single moves of rows {rows[first:] + rows[:first]} end at {summed:.9g}, the total is {right:.9g}"
        raise BrokenInvariantError(Invariant.ORDER, story)


def check_label(term: EnergyTerm, before: float, other: Configuration, invariant: Invariant) -> None:
    """Compare the value of a configuration with that of another, which differs in what should not matter."""
    after = value_from_scratch(term, other)
    if not same(before, after):
        raise BrokenInvariantError(invariant, f"the total goes from {before:.9g} to {after:.9g}")


def check_agreement(
    constraint: Constraint, configuration: Configuration, before: frozenset[int], proposal: Proposal
) -> None:
    """Compare the answer of a constraint for a proposal with the rows broken `before` and after it."""
    twin = copy_of(configuration)
    refused = constraint.refuses(configuration, proposal)
    twin.apply(proposal)
    after = broken_rows(constraint, twin)
    moved = {one.row for one in configuration.relocations(proposal)}
    if not refused and not after <= before:
        story = f"{text_of_proposal(proposal)} is allowed, but breaks rows {sorted(after - before)}"
        raise BrokenInvariantError(Invariant.AGREEMENT, story)
    if refused and not after & (moved | (after - before)):
        story = f"{text_of_proposal(proposal)} is refused, but would leave none of the rows it concerns broken"
        raise BrokenInvariantError(Invariant.AGREEMENT, story)


def broken_rows(constraint: Constraint, configuration: Configuration) -> frozenset[int]:
    """Return the rows that break a constraint, from a new copy of it."""
    return frozenset(int(row) for row in deepcopy(constraint).broken(configuration))


def copy_of(configuration: Configuration) -> Configuration:
    """Return a configuration that shares no mutable data with this one."""
    return Configuration(configuration.problem, configuration.solution.copy(), configuration.description)


def text_of_proposal(proposal: Proposal) -> str:
    """Return a proposal in words."""
    if proposal.target == NOWHERE:
        return f"taking row {proposal.row} off"
    if proposal.partner == NOWHERE:
        return f"moving row {proposal.row} to node {proposal.target}"
    return f"exchanging rows {proposal.row} and {proposal.partner}"
