"""Spread moves: after a replica has moved, siblings move until the spread over domains holds again.

As in docs/service-fabric.md, for each rule in turn, each replica that violates it moves to a random node that
the rules so far allow. If there is none, the step fails.
"""

from __future__ import annotations

from plb.array_types import NOWHERE
from plb.compiler import Stream, kernel
from plb.constraints.domains import FAULT_DOMAIN, SPREADING, UPGRADE_DOMAIN, excess_in_domain, stands_wrongly
from plb.search.extension_kernels import ExtensionState
from plb.search.transactions import Transaction, has_moved, random_target, try_move
from plb.state.arrays import Problem, Solution

_WITHOUT_SPREADING = ~SPREADING


@kernel
def make_spread_moves(
    problem: Problem,
    solution: Solution,
    extension_state: ExtensionState,
    enforced: int,
    row: int,
    rng: Stream,
    transaction: Transaction,
) -> bool:
    """Move siblings of `row`, which has moved, out of crowded domains; return whether the spread holds afterwards.

    Parameters
    ----------
    enforced
        Bit mask over `Rule`.
    """
    so_far = enforced & _WITHOUT_SPREADING
    for rule in (FAULT_DOMAIN, UPGRADE_DOMAIN):
        so_far |= enforced & (1 << rule)
        for level in range(problem.domain.shape[1]):
            binds = problem.domain_rule[level] == rule and enforced >> rule & 1
            if binds and not _spread_siblings(problem, solution, extension_state, so_far, level, row, rng, transaction):
                return False
    for level in range(problem.domain.shape[1]):
        if enforced >> problem.domain_rule[level] & 1 and _is_uneven(problem, solution, level, row):
            return False
    return True


@kernel
def _spread_siblings(
    problem: Problem,
    solution: Solution,
    extension_state: ExtensionState,
    so_far: int,
    level: int,
    row: int,
    rng: Stream,
    transaction: Transaction,
) -> bool:
    """Move siblings of `row` out of crowded domains of one level; return whether each found a node."""
    other = problem.sibling[row]
    while other != row:
        stays = not problem.movable[other] or has_moved(transaction, other)
        if not stays and excess_in_domain(problem, solution, level, other) > 0:
            target = random_target(problem, solution, extension_state, so_far, other, solution.node[other], rng)
            if target == NOWHERE:
                return False
            try_move(problem, solution, transaction, other, target)
        other = problem.sibling[other]
    return True


@kernel
def _is_uneven(problem: Problem, solution: Solution, level: int, row: int) -> bool:
    """Return whether some domain has too many or too few replicas of the partition of `row`."""
    this = row
    while True:
        if stands_wrongly(problem, solution, level, this):
            return True
        this = problem.sibling[this]
        if this == row:
            return False
