"""The price of overload: a search passes through overloaded nodes on its way to places that overload none.

Where nodes are nearly full, capacity refuses most moves, and a large replica never finds a node with enough free at
once. Here it may overload a node, at a price that rises over the budget from a share of the temperature to far more
than any move can win. Only solutions without overload are results. The idea is that of exterior penalty methods.

A unit of overload is about the mean load of a replica, so that metrics with large numbers do not outweigh others. It is
a power of two, which keeps sums of overload exact and their zero a zero.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import attrs
import numpy as np

from plb.array_types import NOWHERE, Bool, Float, Int
from plb.compiler import by_pointer, kernel
from plb.extensions.energy_terms import VanishingTerm
from plb.model.rules import Rule
from plb.search.chain_state import ChainState
from plb.search.extension_kernels import ExtensionState, apply_with_terms, copy_values, foresee
from plb.search.extension_state import ChainExtensions
from plb.search.extensions import Extensions
from plb.search.move_generation import Choice
from plb.search.neighbourhoods import Neighbourhoods
from plb.search.price_path import NEARLY_FREE, evaluate_again
from plb.search.transactions import is_allowed
from plb.state.arrays import Problem, Solution
from plb.state.proposal import Proposal, proposed

if TYPE_CHECKING:
    from plb.extensions.configuration import Configuration

OVERLOAD = "overload under soft_capacity"
"""Name of the term, which no term of users is likely to have."""
FIRST, LAST = 0.3, 3000.0
"""First and last price of a unit of overload, in units of the first temperature."""
LEAST_LAST = 10.0
"""The last price is at least this, in units of the largest energy change of the probes."""
SOFT_SHARE = 0.75
"""Used share of the budget at which capacity becomes hard, and larger neighbourhoods are searched."""
RISING_SHARE = 0.7
"""Used share of the budget at which the price has its last value, and from which results are kept."""


@by_pointer
class MostLoads(NamedTuple):
    """Data of the kernel."""

    most: Int
    """(N, R) quanta that the replicas of a node may have without overload."""
    in_transit: Bool
    """(R,) whether loads that leave a node in this plan still count there."""
    inverse_unit: Float
    """(R,) 1/quanta of a unit of overload."""


@kernel
def _rise(present: int, gain: int) -> int:
    """Return by how much an overload rises from `present`, which is negative where some is free."""
    return int(max(0, present + gain) - max(0, present))


@kernel
def _above(solution: Solution, data: MostLoads, node: int, metric: int) -> int:
    """Return by how much the load of a node exceeds what it may have; negative where some is free."""
    above = solution.node_load[node, metric] - data.most[node, metric]
    if data.in_transit[metric]:
        above += solution.departed[node, metric]
    return int(above)


@kernel
def change_of_overload(problem: Problem, solution: Solution, data: MostLoads, proposal: Proposal) -> float:
    """Return the change of the overload by a proposal for partitions of one replica; O(R).

    What leaves its origin stays there in transit, so that the origin does not lose it, and does not gain what returns.
    """
    row, target, partner, source = proposal
    change = 0.0
    for metric in range(data.most.shape[1]):
        load, back = problem.load[row, metric], problem.load[partner, metric]  # the last row, of NOWHERE, is zero
        at_target = at_source = load - back
        if data.in_transit[metric]:
            at_target += back * (problem.origin[partner] == target) - load * (problem.origin[row] == target)
            at_source += back * (problem.origin[partner] == source) - load * (problem.origin[row] == source)
        if at_target != 0:
            rise = _rise(_above(solution, data, target, metric), at_target)
            change += data.inverse_unit[metric] * rise
        if at_source != 0 and source != NOWHERE:
            rise = _rise(_above(solution, data, source, metric), -at_source)
            change += data.inverse_unit[metric] * rise
    return change


@kernel
def overload_of_node(_problem: Problem, solution: Solution, data: MostLoads, node: int) -> float:
    """Return the overload of a node; O(R)."""
    overload = 0.0
    for metric in range(data.most.shape[1]):
        overload += data.inverse_unit[metric] * max(0, _above(solution, data, node, metric))
    return overload


def _loads(solution: Solution, in_transit: Bool) -> Int:
    """Return the loads of the nodes, (N, R), with those that leave them in this plan and still count there."""
    return solution.node_load + (solution.departed * in_transit if in_transit.any() else 0)


class SoftCapacity:
    """What a chain searches while overload has a price, and later.

    Parameters
    ----------
    neighbourhoods
        Those that are searched when capacity is hard.
    choice
        The proposals when capacity is hard.
    begins_at_origins
        Whether the search begins with all rows on their origins.
    """

    def __init__(self, neighbourhoods: Neighbourhoods, choice: Choice, *, begins_at_origins: bool) -> None:
        self.neighbourhoods, self.begins_at_origins = neighbourhoods, begins_at_origins
        self.choice = choice._replace(enforced=choice.enforced & ~(1 << Rule.CAPACITY))


class OverloadPrice(VanishingTerm):
    """The overload of all nodes, in units; 0 in the solution at which a search begins."""

    name = OVERLOAD
    change = change_of_overload
    node_cost = overload_of_node

    def __init__(self, problem: Problem, start: Solution) -> None:
        super().__init__()
        in_transit = problem.transient & problem.counts_departed
        present = _loads(start, in_transit)
        limit = np.minimum(problem.limit, problem.move_limit) - problem.leaving_load
        mean = problem.load[np.flatnonzero(problem.movable)].mean(axis=0)
        unit = np.exp2(np.round(np.log2(np.maximum(1.0, mean))))
        self._most_loads = MostLoads(np.maximum(limit, present), in_transit, 1.0 / unit)

    def new_data(self, configuration: Configuration) -> MostLoads:  # noqa: ARG002  # those of the start
        """Return what the nodes may have, as it was at the start."""
        return self._most_loads

    def total(self, configuration: Configuration) -> float:
        """Return the overload of all nodes."""
        solution, most_loads = configuration.solution, self._most_loads
        load = _loads(solution, most_loads.in_transit)
        return float((np.maximum(0, load - most_loads.most) * most_loads.inverse_unit).sum())


def is_priceable(problem: Problem) -> bool:
    """Return whether overload can have a price: each partition has one replica, and nothing is reserved."""
    alone = bool((problem.sibling == np.arange(len(problem.sibling))).all())
    return alone and not (problem.reserves or problem.standbys)


def with_overload_price(extensions: Extensions, problem: Problem, start: Solution) -> Extensions:
    """Return extensions with the price of overload as their last term, which is 0 at first."""
    terms = (*extensions.terms, OverloadPrice(problem, start))
    return attrs.evolve(extensions, terms=terms, weights={**extensions.weights, OVERLOAD: 0.0})


def raise_price(
    problem: Problem, solution: Solution, chain_state: ChainState, state: ExtensionState, used: float
) -> None:
    """Set the price of overload for the used share of the budget.

    Until it has its last value, and while no solution without overload was found, the present solution is the best one.
    """
    schedule, before = chain_state.schedule, float(state.weight[-1])
    first = max(schedule.first_temperature * FIRST, NEARLY_FREE * schedule.largest_change)
    last = max(first * LAST / FIRST, LEAST_LAST * schedule.largest_change)
    state.weight[-1] = first * (last / first) ** min(1.0, used / RISING_SHARE) if first > 0.0 else 0.0
    if used < RISING_SHARE or has_overload(state):
        evaluate_again(problem, solution, chain_state, state)
    else:
        schedule.energy += (float(state.weight[-1]) - before) * float(state.value[-1])


def has_overload(state: ExtensionState) -> bool:
    """Return whether the best solution of a chain has overload that has a price."""
    return bool(state.best[state.vanishing].any())


def remove_overload(
    problem: Problem, solution: Solution, chain_state: ChainState, extensions: ChainExtensions, soft: SoftCapacity
) -> bool:
    """Return replicas from overloaded nodes to their origins until no node is overloaded; return whether none is.

    The replicas of a node before the search overload none, so each that returns brings the solution closer to that.
    Where rules do not allow it, all return, if the search began there.
    """
    state = extensions.state
    most_loads = extensions.data[int(state.vanishing[0])]
    for every in (False, True) if soft.begins_at_origins else (False,):
        arguments = problem, solution, soft.choice.enforced, most_loads, state, every
        while has_overload(state) and return_to_origins(*arguments):
            evaluate_again(problem, solution, chain_state, state)
    return not has_overload(state)


@kernel
def return_to_origins(
    problem: Problem, solution: Solution, enforced: int, data: MostLoads, extension_state: ExtensionState, every: bool
) -> int:
    """Return rows to their origins; return how many moved.

    Parameters
    ----------
    every
        Whether all displaced rows return, or those on overloaded nodes that rules allow to.
    """
    moved = 0
    for place in range(solution.totals.displaced - 1, -1, -1):
        row = solution.displaced[place]
        proposal = proposed(solution, row, problem.origin[row], NOWHERE)
        if not every and overload_of_node(problem, solution, data, proposal.source) == 0.0:
            continue
        if every or is_allowed(problem, solution, extension_state, enforced, proposal):
            copy_values(extension_state.value, extension_state.after)
            foresee(problem, solution, extension_state, proposal)
            apply_with_terms(problem, solution, extension_state, proposal)
            copy_values(extension_state.after, extension_state.value)
            moved += 1
    return moved
