"""Drawing proposals and judging them: constraints, then budgets, then energy, cheapest first."""

from __future__ import annotations

import math
from typing import NamedTuple

from plb.arrays import (
    DISPLACED,
    FRAGMENTATION,
    IMBALANCE,
    MOVEMENT,
    NOWHERE,
    OVERLOAD,
    VIOLATIONS,
    Int,
    Problem,
    Solution,
)
from plb.constraints import NO_REFUSAL, RULES
from plb.constraints.budgets import refusal_of_budget
from plb.constraints.check import are_siblings, refusal_of_exchange, refusal_of_move
from plb.energy.score import (
    FAILOVERS_TERM,
    FRAGMENTATION_TERM,
    IMBALANCE_TERM,
    MOVEMENT_TERM,
    OVERLOAD_TERM,
    PLAIN_SPREAD,
    TERM_NAMES,
    energy_of,
)
from plb.kernel import kernel
from plb.prefetch import fetch
from plb.search.guiding import draw_worth_moving, draw_worth_reaching, is_worth_swapping
from plb.search.transition import (
    apply_proposal,
    evaluates_risk,
    fragmentation_of_proposal,
    imbalance_of_proposal,
    movement_after,
    moves_after,
    overload_at_source,
    overload_at_target,
    present_energy,
    violations_at_source,
    violations_at_target,
)
from plb.uniform import Coming, Stream, uniform

# Positions in a tally: what became of the proposals
DRAWN, SCORED, REACHED_MONTE_CARLO, ACCEPTED = range(4)
FIRST_RULE = 4
FIRST_TERM = FIRST_RULE + RULES
TALLY_SIZE = FIRST_TERM + len(TERM_NAMES)

REJECTED = math.inf
"""Energy of a proposal that is not taken."""
ROWS_IN_CACHE = 10_000
"""Up to this many rows, the arrays of a search stay in the cache."""
_coming_first, _coming_second, _coming_third = Coming(0), Coming(1), Coming(2)
"""A proposal that a rule refuses draws nothing more; one that is judged draws one number for its threshold."""
RETARGET_PROBABILITY = 0.4
"""Share of the proposals on a displaced replica that try another target."""
SUBSTITUTE_PROBABILITY = 0.3
"""Share that let another replica leave the origin in its stead; the rest go back there."""


class Choice(NamedTuple):
    """What a search may propose."""

    creation: Int
    """Rows that are being placed and may be placed elsewhere."""
    movable: Int
    """Rows that stand and may move."""
    migrations: int
    """Most rows that may be displaced; 0: none may move."""
    enforced: int
    """Bit mask over `Rule`."""
    swap_probability: float
    exchange_probability: float
    corrects: bool = False
    """Whether siblings move on where a proposal breaks the spread over domains."""
    spare: int = 0
    """1: a parent may be tried although all `migrations` are used, as its children may come back by that."""


def migration_slots(problem: Problem, start: Solution, share: float) -> int:
    """Return how many replicas that stand a search may displace, if it may displace this share of the movable ones."""
    return math.ceil(share * int((problem.movable & (start.node != NOWHERE)).sum()))


@kernel(inline=True)
def draw_proposal(problem: Problem, solution: Solution, choice: Choice, rng: Stream) -> tuple[int, int, int]:
    """Draw a random proposal: row, target, partner. The row is NOWHERE if the draw came to nothing.

    In a large cluster the rows that the next proposal may be about are fetched meanwhile.
    """
    drawn = _draw(problem, solution, choice, rng)
    if solution.node.shape[0] > ROWS_IN_CACHE:
        _fetch_for_energy(problem, drawn[0])
        first, second, third = _coming_first(rng), _coming_second(rng), _coming_third(rng)
        _fetch_for_rules(problem, solution, _likely_row(solution, choice, first, second))
        _fetch_for_rules(problem, solution, _likely_row(solution, choice, second, third))
    return drawn


@kernel(inline=True)
def _draw(problem: Problem, solution: Solution, choice: Choice, rng: Stream) -> tuple[int, int, int]:
    """Draw a random proposal.

    Slots are drawn uniformly, as Service Fabric does (semantics.md section 5): a slot of a new replica redraws its
    target; a slot of a displaced replica sends it back or elsewhere; an empty slot moves, swaps or exchanges.
    """
    slot = int(uniform(rng) * (choice.creation.shape[0] + choice.migrations + choice.spare))
    if slot < choice.creation.shape[0]:
        row = choice.creation[slot]
        target = _random_of(problem.targets, rng)
        return row, target, _new_sibling_on(problem, solution, row, target)
    slot -= choice.creation.shape[0]
    if slot < solution.counts[DISPLACED]:
        row = solution.displaced[slot]
        kind = uniform(rng)
        if kind < RETARGET_PROBABILITY:
            return row, _random_of(problem.targets, rng), NOWHERE
        origin = problem.origin[row]
        if kind < RETARGET_PROBABILITY + SUBSTITUTE_PROBABILITY and choice.movable.shape[0] > 0:
            partner = _random_of(choice.movable, rng)
            if solution.node[partner] != origin or are_siblings(problem, row, partner):
                return NOWHERE, NOWHERE, NOWHERE
            return row, origin, partner
        return row, origin, _sibling_on(problem, solution, row, origin)
    row = _random_of(choice.movable, rng)
    if slot >= choice.migrations and problem.first_child[row] == NOWHERE:
        return NOWHERE, NOWHERE, NOWHERE
    kind = uniform(rng)
    if kind < choice.swap_probability:
        partner = _swap_partner(problem, row, rng)
        if problem.guided and partner != NOWHERE and not is_worth_swapping(problem, solution, row, partner):
            partner = NOWHERE
    elif kind < choice.swap_probability + choice.exchange_probability:
        partner = _random_of(choice.movable, rng)
        too_many = solution.counts[DISPLACED] + 2 > choice.migrations
        if too_many or partner == row or are_siblings(problem, row, partner):
            partner = NOWHERE
    elif problem.guided:
        row = draw_worth_moving(problem, solution, choice.movable, row, rng)
        if row == NOWHERE:
            return NOWHERE, NOWHERE, NOWHERE
        return row, draw_worth_reaching(problem, solution, row, rng), NOWHERE
    else:
        return row, _random_of(problem.targets, rng), NOWHERE
    if partner == NOWHERE:
        return NOWHERE, NOWHERE, NOWHERE
    return row, solution.node[partner], partner


@kernel(inline=True)
def _likely_row(solution: Solution, choice: Choice, slot_number: float, row_number: float) -> int:
    """Return the row of the next proposal if it is drawn with these two numbers and moves a replica that stands."""
    slot = int(slot_number * (choice.creation.shape[0] + choice.migrations + choice.spare)) - choice.creation.shape[0]
    if 0 <= slot < solution.counts[DISPLACED]:
        return int(solution.displaced[slot])
    if choice.movable.shape[0] == 0:
        return 0
    return int(choice.movable[int(row_number * choice.movable.shape[0])])


@kernel(inline=True)
def _fetch_for_rules(problem: Problem, solution: Solution, row: int) -> None:
    """Fetch what the rules read of a row first."""
    fetch(solution.node, row)
    fetch(problem.sibling, row)
    fetch(problem.origin, row)
    fetch(problem.kind, row)
    fetch(problem.suit, row)
    fetch(problem.service, row)


@kernel(inline=True)
def _fetch_for_energy(problem: Problem, row: int) -> None:
    """Fetch what capacity and energy read of a row."""
    fetch(problem.load, row)
    fetch(problem.peak_ceiling, row)
    fetch(problem.move_cost, row)


@kernel(inline=True)
def _random_of(values: Int, rng: Stream) -> int:
    return int(values[int(uniform(rng) * values.shape[0])])


@kernel(inline=True)
def _sibling_on(problem: Problem, solution: Solution, row: int, node: int) -> int:
    """Return the sibling of `row` that stands on `node`, or NOWHERE."""
    other = problem.sibling[row]
    while other != row:
        if solution.node[other] == node:
            return int(other)
        other = problem.sibling[other]
    return NOWHERE


@kernel(inline=True)
def _new_sibling_on(problem: Problem, solution: Solution, row: int, target: int) -> int:
    """Return the sibling of `row` that is being placed on `target` as well, or NOWHERE."""
    other = problem.sibling[row]
    while other != row:
        if solution.node[other] == target and problem.origin[other] == NOWHERE:
            return int(other)
        other = problem.sibling[other]
    return NOWHERE


@kernel(inline=True)
def _swap_partner(problem: Problem, row: int, rng: Stream) -> int:
    """Return a random movable sibling of another role, or NOWHERE."""
    chosen = NOWHERE
    seen = 0
    other = problem.sibling[row]
    while other != row:
        if problem.role[other] != problem.role[row] and problem.movable[other]:
            seen += 1
            if uniform(rng) * seen < 1.0:
                chosen = other
        other = problem.sibling[other]
    return int(chosen)


@kernel
def refusal(problem: Problem, solution: Solution, enforced: int, row: int, target: int, partner: int) -> int:
    """Return the rule that refuses the proposal, or NO_REFUSAL."""
    return refusal_in_place(problem, solution, enforced, row, target, partner)


@kernel(inline=True)
def refusal_in_place(problem: Problem, solution: Solution, enforced: int, row: int, target: int, partner: int) -> int:
    """Return what `refusal` does, compiled into the caller: for the innermost loop."""
    if partner == NOWHERE:
        refused = refusal_of_move(problem, solution, enforced, row, target)
    else:
        refused = refusal_of_exchange(problem, solution, enforced, row, partner)
    if refused != NO_REFUSAL or not problem.bounded:
        return refused
    moves = moves_after(problem, solution, row, target, partner)
    return refusal_of_budget(problem, solution, moves, row, target, partner)


@kernel(inline=True)
def judge(
    problem: Problem,
    solution: Solution,
    highest: float,
    row: int,
    target: int,
    partner: int,
    tally: Int,
) -> float:
    """Return the energy after the proposal, or REJECTED if it is above `highest`.

    The Monte Carlo terms are bounded from below first: leaving a node removes at most its present violations and
    overload, and joining one removes none (in an exchange, or with judges, both nodes lose at most theirs). Repetitions
    are evaluated only for a proposal that the bound does not reject.

    Parameters
    ----------
    highest
        Highest energy that is accepted.
    tally
        (TALLY_SIZE,) counts of what became of proposals; changed.
    """
    tally[SCORED] += 1
    weights = problem.weights
    if weights[PLAIN_SPREAD] == 0.0:
        after = energy_by_trial(problem, solution, row, target, partner)
        if after <= highest:
            return after
        tally[FIRST_TERM + IMBALANCE_TERM] += 1
        return REJECTED
    here = solution.node[row]
    movement = movement_after(problem, solution, row, target, partner)
    spread = imbalance_of_proposal(problem, solution, row, target, partner)
    fragmentation = fragmentation_of_proposal(problem, solution, row, target, partner)
    violations, overload = solution.counts[VIOLATIONS], solution.counts[OVERLOAD]
    if evaluates_risk(weights, problem.peak.shape[2]):
        if here != NOWHERE:
            violations, overload = violations - solution.violating[here], overload - solution.overload[here]
        both_may_lose = partner != NOWHERE or problem.judges.shape[0] > 0
        if both_may_lose:
            violations, overload = violations - solution.violating[target], overload - solution.overload[target]
        if energy_of(weights, movement, spread, fragmentation, violations, overload) <= highest:
            tally[REACHED_MONTE_CARLO] += 1
            violations += violations_at_source(problem, solution, row, partner)
            overload += overload_at_source(problem, solution, row, partner)
            if energy_of(weights, movement, spread, fragmentation, violations, overload) <= highest:
                if not both_may_lose:
                    violations, overload = violations - solution.violating[target], overload - solution.overload[target]
                violations += violations_at_target(problem, solution, row, target, partner)
                overload += overload_at_target(problem, solution, row, target, partner)
    after = energy_of(weights, movement, spread, fragmentation, violations, overload)
    if after <= highest:
        return after
    tally[FIRST_TERM + _worst_term(problem, solution, movement, spread, fragmentation, violations, overload)] += 1
    return REJECTED


@kernel
def energy_by_trial(problem: Problem, solution: Solution, row: int, target: int, partner: int) -> float:
    """Return the energy after the proposal by carrying it out and taking it back."""
    source = solution.node[row]
    apply_proposal(problem, solution, row, target, partner)
    after = present_energy(problem, solution)
    apply_proposal(problem, solution, row, source, partner)
    return after


@kernel(inline=True)
def _worst_term(
    problem: Problem,
    solution: Solution,
    movement: int,
    spread: float,
    fragmentation: float,
    violations: int,
    overload: int,
) -> int:
    """Return the term without whose change the energy would be lowest: the one that worsened the energy most."""
    weights = problem.weights
    counts = solution.counts
    present_spread = solution.terms[IMBALANCE]
    present_fragmentation = solution.terms[FRAGMENTATION]
    worst = MOVEMENT_TERM
    lowest = energy_of(weights, counts[MOVEMENT], spread, fragmentation, violations, overload)
    without = energy_of(weights, movement, present_spread, fragmentation, violations, overload)
    if without < lowest:
        worst = IMBALANCE_TERM
        lowest = without
    without = energy_of(weights, movement, spread, present_fragmentation, violations, overload)
    if without < lowest:
        worst = FRAGMENTATION_TERM
        lowest = without
    without = energy_of(weights, movement, spread, fragmentation, counts[VIOLATIONS], overload)
    if without < lowest:
        worst = FAILOVERS_TERM
        lowest = without
    without = energy_of(weights, movement, spread, fragmentation, violations, counts[OVERLOAD])
    if without < lowest:
        worst = OVERLOAD_TERM
    return worst
