"""Upgrades: primaries swap roles before their node is upgraded, and swap back after it.

See docs/embedding.md, Upgrades. A primary swaps roles with a ready secondary on a node in service, the one
with the least energy among those that the most rules allow. If the settings allow it, the node may then exceed its
limit. With checks of aligned affinity, the primaries of parent and children on a node swap together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum

import attrs

from plb.array_types import NOWHERE, Bool, Int
from plb.evaluation.constraint_chain import are_siblings
from plb.evaluation.delta import apply_proposal, present_energy
from plb.evaluation.proposals import FIRST_RULE, refusal
from plb.extensions.configuration import Proposal
from plb.model import Role
from plb.model.rules import BUDGETS, NO_REFUSAL
from plb.search.extended.extensions import Extensions
from plb.state.arrays import Problem, Solution, siblings_of

Swap = tuple[int, int]
"""Rows of a primary and of the secondary that becomes the primary."""


@attrs.frozen(eq=False)
class Handover:
    """A partition of which another replica is to become the primary.

    Parameters
    ----------
    partition
        Name of the partition.
    primary
        Row of the primary; NOWHERE without one: a secondary is then promoted.
    takers
        Rows of the secondaries that may become the primary.
    returns
        Whether the role goes back to where it was before the upgrade.
    """

    partition: str
    primary: int
    takers: Sequence[int]
    returns: bool


class HandoverEnd(Enum):
    """What became of a handover."""

    DONE = "done"
    IMPOSSIBLE = "impossible"
    NO_BUDGET = "no budget"
    """A budget of moves forbids what the other rules allow."""


def hand_over(
    problem: Problem,
    solution: Solution,
    handover: Handover,
    masks: Sequence[int],
    able: Bool,
    tally: Int,
    *,
    together: bool,
    extensions: Extensions | None = None,
) -> HandoverEnd:
    """Swap the roles of a handover's primary and of the best taker, in place; nothing is changed if none can.

    Parameters
    ----------
    masks
        Enforced rules, from all to those that always hold.
    able
        (M,) whether the row is ready and free to change roles.
    tally
        (TALLY_SIZE,) counts of the proposals; refusals by budgets are added.
    together
        Whether aligned primaries of its parent and children on its node swap with it.
    extensions
        With the extension constraints; their refusals are counted.
    """
    here = int(solution.node[handover.primary])
    primaries = _aligned_primaries(problem, solution, handover.primary) if together else [handover.primary]
    receives = problem.receives.copy()
    receives[0, here] = True  # the role leaves a node that allows no new replica
    opened = problem._replace(receives=receives)
    end = HandoverEnd.IMPOSSIBLE
    for mask in masks:
        best: tuple[float, list[Swap]] | None = None
        for taker in handover.takers:
            swaps = _swaps_onto(problem, solution, primaries, taker, able)
            if not swaps or not problem.receives[0, solution.node[taker]]:
                continue
            refused, energy = _try(opened, solution, swaps, mask, extensions)
            if isinstance(refused, str):
                continue
            if refused in BUDGETS:
                end = HandoverEnd.NO_BUDGET
                tally[FIRST_RULE + refused] += 1
            elif refused == NO_REFUSAL and (best is None or energy < best[0]):
                best = energy, swaps
        if best is not None:
            for primary, secondary in best[1]:
                apply_proposal(problem, solution, primary, int(solution.node[secondary]), secondary)
            return HandoverEnd.DONE
    return end


def promoted(
    problem: Problem, solution: Solution, growth: Mapping[int, Int], feasibility_class: int, *, relaxed: bool
) -> int:
    """Return the secondary that becomes the primary of a partition without one, or NOWHERE.

    Parameters
    ----------
    growth
        Increase of the load of each candidate for the role, (R,) quanta.
    feasibility_class
        Requirements of a primary of the partition on nodes, as in `Problem.feasibility_class`.
    relaxed
        Whether a node may exceed its limit if none has enough free capacity.
    """
    nodes = {row: int(solution.node[row]) for row in growth}
    feasible = [
        row
        for row, node in nodes.items()
        if problem.receives[0, node] and problem.feasibility_classes[feasibility_class, node]
    ]
    load = solution.node_load + problem.leaving_load
    fitting = [
        row
        for row in feasible
        if not ((growth[row] > 0) & (load[nodes[row]] + growth[row] > problem.limit[nodes[row]])).any()
    ]
    return next(iter(fitting or (feasible if relaxed else [])), NOWHERE)


def _aligned_primaries(problem: Problem, solution: Solution, primary: int) -> list[int]:
    """Return the primaries of the aligned family of the partition on the node of `primary`, itself first."""
    here = solution.node[primary]
    parent = int(problem.parent_row[primary])
    heads = [parent] if parent != NOWHERE and problem.aligned[primary] else [primary]
    child = int(problem.first_child[heads[0]])
    while child != NOWHERE:
        if problem.aligned[child]:
            heads.append(child)
        child = int(problem.next_child[child])
    found = [row for head in heads for row in siblings_of(problem, head)]
    others = [row for row in found if problem.role[row] == Role.PRIMARY and solution.node[row] == here]
    return [primary, *(row for row in others if row != primary and not problem.unspread[row])]


def _swaps_onto(problem: Problem, solution: Solution, primaries: Sequence[int], taker: int, able: Bool) -> list[Swap]:
    """Return the swaps that move all `primaries` to the node of `taker`; none if one of them cannot."""
    there = solution.node[taker]
    swaps = []
    for primary in primaries:
        if are_siblings(problem, primary, taker):
            secondary = taker
        else:
            on_target = [row for row in siblings_of(problem, primary) if able[row] and solution.node[row] == there]
            secondary = next((row for row in on_target if problem.role[row] == Role.SECONDARY), NOWHERE)
        if secondary == NOWHERE or not able[primary]:
            return []
        swaps.append((primary, secondary))
    return swaps


def _try(
    problem: Problem, solution: Solution, swaps: Sequence[Swap], enforced: int, extensions: Extensions | None
) -> tuple[int | str, float]:
    """Return the refusal of one of `swaps` made in turn, and the energy after all of them.

    A refusal is a rule, or the name of an extension constraint; NO_REFUSAL without one.
    """
    refused: int | str = NO_REFUSAL
    done = []
    for primary, secondary in swaps:
        here, there = int(solution.node[primary]), int(solution.node[secondary])
        refused = int(refusal(problem, solution, enforced, primary, there, secondary))
        if refused == NO_REFUSAL and extensions is not None:
            proposal = Proposal(primary, there, secondary)
            refused = extensions.refuse(extensions.configuration(problem, solution), proposal) or NO_REFUSAL
        if refused != NO_REFUSAL:
            break
        apply_proposal(problem, solution, primary, there, secondary)
        done.append((primary, here, secondary))
    energy = float(present_energy(problem, solution))
    for primary, here, secondary in reversed(done):
        apply_proposal(problem, solution, primary, here, secondary)
    return refused, energy
