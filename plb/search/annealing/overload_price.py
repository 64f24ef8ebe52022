"""The price of moves, which falls in a search, and the price of overload, which rises.

Where nodes are nearly full, capacity refuses most moves, and a large replica never finds a node with enough free at
once. Here it may overload a node, at a price that rises over the budget from a share of the temperature to far more
than any move can win. Only solutions without overload are results. The idea comes from exterior penalty methods.

A unit of overload is about the mean load of a replica, so that metrics with large numbers do not outweigh others. It is
a power of two, which keeps sums of overload exact and their zero a zero.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import attrs
import numpy as np

from plb.array_types import NOWHERE, Bool, Float, Int
from plb.compiler import by_pointer, kernel
from plb.energy.terms import present_energy
from plb.extensions.energy_terms import VanishingTerm
from plb.extensions.kernel_data import Values
from plb.model.rules import Rule, RuleMask
from plb.search.annealing.chain import ChainState
from plb.search.annealing.move_generation import Choice
from plb.search.annealing.neighbourhoods import Neighbourhoods
from plb.search.budget import ENDLESS
from plb.search.extension_kernels import ExtensionState, apply_with_terms, copy_values, foresee, weighed
from plb.search.extension_state import ChainExtensions
from plb.search.extensions import Extensions
from plb.search.transactions import is_allowed
from plb.state.arrays import TENTHS, Problem, Proposal, Solution, proposed

if TYPE_CHECKING:
    from plb.extensions.configuration import Configuration


STAGES, FEWEST_STAGES = 100, 25
"""Largest and smallest number of changes of the price in a search."""
PROPOSALS_A_STAGE = 150
"""Proposals from which another stage is worth the time that it takes."""
FALLING_SHARE = 0.4
"""Share of the stages in which the price falls from its first value to its last, if nothing holds it."""
MOVING_SHARE = 0.8
"""Share of the budget in which as many replicas are to move as the limit allows."""
UNMOVED = 4
"""How many times as fast the price falls while no replica has moved."""
WIN = 2.0
"""What moves must win together, in units of their cost, for a plan to be used."""
RISE = 7.0
"""Factor of the price in a search in which more replicas have moved than planned all the time."""
FIRST_PRICE = 2.0
"""First price, in units of the largest energy change of the probes."""
QUIET_FROM = 1000
"""Proposals, besides one for each movable replica, without a move after which a search gives up."""
QUIET = 10
"""How many times as many proposals a search makes without a move after it has found some."""
MOST_FALLING = 10_000
"""Longest fall of the price, in the same unit: a longer one finds nothing better, and does not end for hours."""
NO_CHANGE = 1e-9
"""Share of the energy by which a change of it is taken for rounding."""
NEARLY_FREE = 1e-3
"""Last price in units of the first one, where moves cost nothing."""


class PricePath:
    """The price of moves of one chain, which may displace `limit` replicas in so many proposals."""

    def __init__(self, problem: Problem, limit: int, proposals: float = math.inf) -> None:
        self._problem, self._limit = problem, limit
        self._stages = int(max(FEWEST_STAGES, min(STAGES, proposals / PROPOSALS_A_STAGE)))
        self._costs = math.isfinite(problem.weights.tenths_of_move)
        """Whether moves cost something by the settings, which is then the last price."""
        self._price = self._least = 1.0
        """Present and last price of a move, in units of the energy."""
        self._fall = 1.0
        """Factor of the price from one stage to the next while too few replicas have moved."""
        self._stage = -1
        self._continues = False
        """Whether the search began with displaced replicas, so that the price does not fall."""
        self._energy = 0.0
        """Energy at the start of the stage, at its price."""
        self._last_gain = 0
        """Number of proposals at the last stage whose price fell or that found something better."""

    @property
    def without_price(self) -> Problem:
        """The problem with moves that cost nothing, for the probes."""
        return self._at(math.inf)

    def left(self, done_proposals: int, search_proposals: float) -> int:
        """Return how many proposals of the present stage are left, at least 1; infinite without an end.

        `done_proposals`: already made of `search_proposals`.
        """
        if search_proposals == math.inf:
            return ENDLESS
        return max(1, math.ceil((self._stage + 1) / self._stages * search_proposals) - done_proposals)

    def is_quiet(self, displaced: int, energy: float, done_proposals: int, patience: float) -> bool:
        """Return whether the price falls no further and the search has found nothing better for long.

        `displaced`: number of rows; `energy`: at the present price; `done_proposals`: so far in the search; `patience`:
        proposals without a move after which the search gives up.
        """
        is_cheap = self._costs and self._price <= WIN * self._least
        if is_cheap and displaced == 0 and done_proposals >= patience:
            return True
        falls = self._price > self._least and displaced < self._limit
        if falls or energy < self._energy - NO_CHANGE * abs(self._energy):
            self._last_gain = done_proposals
        return done_proposals - self._last_gain >= QUIET * patience

    def is_due(self, used_share: float) -> bool:
        """Return whether a new stage begins at `used_share` of the budget."""
        return int(used_share * self._stages) > self._stage

    def begin(self, largest_change: float, displaced: int = 0) -> None:
        """Set the first and the last price; with displaced replicas the first price is the last one.

        `largest_change`: of the energy by a probe; `displaced`: number of rows.
        """
        self._continues = displaced > 0
        self._price = FIRST_PRICE * largest_change
        self._least = TENTHS / self._problem.weights.tenths_of_move if self._costs else NEARLY_FREE * self._price
        self._price = self._least if self._continues else max(self._price, self._least)
        price_ratio = self._least / self._price if self._price > 0.0 else 1.0
        self._fall = price_ratio ** (1.0 / (FALLING_SHARE * self._stages))

    def begin_stage(self, energy: float) -> None:
        """Note the energy at the new price."""
        self._energy = energy

    def next_problem(self, used_share: float, displaced: int) -> Problem:
        """Return the problem at the price that is due at `used_share` of the budget.

        The price falls if the number of `displaced` rows is less than planned, and rises if it is more.
        """
        self._stage = int(used_share * self._stages)
        planned_moves = self._limit * (1.0 if self._continues else min(1.0, used_share / MOVING_SHARE) ** 2)
        if displaced < planned_moves:
            self._price = max(self._least, self._price * self._fall ** (1 if displaced else UNMOVED))
            if self._price < self._least * (1.0 + 1e-9):
                self._price = self._least
        elif displaced > planned_moves:
            self._price *= RISE ** (1.0 / self._stages)
        return self._at(TENTHS / self._price if self._price > 0.0 else math.inf)

    def _at(self, tenths_of_move: float) -> Problem:
        """Return the problem in which this many tenths of a move count 1 in the energy."""
        return self._problem._replace(weights=self._problem.weights._replace(tenths_of_move=tenths_of_move))


@kernel
def evaluate_again(
    problem: Problem, solution: Solution, chain_state: ChainState, extension_state: ExtensionState
) -> None:
    """Compute the energy at the present prices and make the present solution the best one; old energies are void."""
    schedule = chain_state.schedule
    schedule.energy = present_energy(problem, solution) + weighed(extension_state, extension_state.value)
    schedule.best_energy = schedule.round_energy = schedule.energy
    schedule.best_movement = solution.totals.movement
    schedule.best_length = schedule.undo_length
    copy_values(extension_state.value, extension_state.best)


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
    """The loads above which nodes are overloaded, as data of the kernels of `OverloadPrice`."""

    most: Int
    """(N, R) quanta that the replicas of a node may have without overload."""
    in_transit: Bool
    """(R,) whether loads that leave a node in this plan still count there."""
    inverse_unit: Float
    """(R,) 1/quanta of a unit of overload."""


@kernel
def _rise(present: int, change: int) -> int:
    """Return by how much an overload rises if the load above the limit, `present`, changes by `change`."""
    return int(max(0, present + change) - max(0, present))


@kernel
def _above(solution: Solution, data: MostLoads, node: int, metric: int) -> int:
    """Return by how many quanta `node` exceeds its most load of `metric`; negative where some load is free."""
    above = solution.node_load[node, metric] - data.most[node, metric]
    if data.in_transit[metric]:
        above += solution.departed[node, metric]
    return int(above)


@kernel
def change_of_overload(
    problem: Problem, solution: Solution, data: MostLoads, _sums: Values, proposal: Proposal
) -> float:
    """Return the change of the overload by a proposal for partitions of one replica; O(R).

    Load that leaves its origin stays there in transit: the origin neither loses it nor gains it when the row returns.
    """
    row, target, partner, source = proposal
    change = 0.0
    for metric in range(data.most.shape[1]):
        leaving, arriving = problem.load[row, metric], problem.load[partner, metric]  # 0 where partner is NOWHERE
        target_change = source_change = leaving - arriving
        if data.in_transit[metric]:
            target_change += arriving * (problem.origin[partner] == target) - leaving * (problem.origin[row] == target)
            source_change += arriving * (problem.origin[partner] == source) - leaving * (problem.origin[row] == source)
        if target_change != 0:
            rise = _rise(_above(solution, data, target, metric), target_change)
            change += data.inverse_unit[metric] * rise
        if source_change != 0 and source != NOWHERE:
            rise = _rise(_above(solution, data, source, metric), -source_change)
            change += data.inverse_unit[metric] * rise
    return change


@kernel
def overload_of_node(_problem: Problem, solution: Solution, data: MostLoads, _sums: Values, node: int) -> float:
    """Return `_overload` of a node."""
    return _overload(solution, data, node)


@kernel
def _overload(solution: Solution, data: MostLoads, node: int) -> float:
    """Return the load of `node` above `data.most`, in units of overload, summed over the metrics; O(R)."""
    overload = 0.0
    for metric in range(data.most.shape[1]):
        overload += data.inverse_unit[metric] * max(0, _above(solution, data, node, metric))
    return overload


def _loads(solution: Solution, in_transit: Bool) -> Int:
    """Return the loads of the nodes, (N, R) quanta; in metrics of `in_transit`, (R,), with loads that have departed."""
    return solution.node_load + (solution.departed * in_transit if in_transit.any() else 0)


class SoftCapacity:
    """What a chain searches while overload has a price.

    `choice`: without the rule of capacity; `neighbourhoods`: for the time when capacity is hard again;
    `begins_at_origins`: whether all replicas were on their origins before the search.
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
        """Return the highest loads of the nodes without overload, as computed at the start of the search."""
        return self._most_loads

    def total(self, configuration: Configuration) -> float:
        """Return the overload of all nodes, in units of overload, computed from scratch."""
        solution, most_loads = configuration.solution, self._most_loads
        load = _loads(solution, most_loads.in_transit)
        return float((np.maximum(0, load - most_loads.most) * most_loads.inverse_unit).sum())


def is_priceable(problem: Problem) -> bool:
    """Return whether overload can have a price: each partition has one replica, and nothing is reserved."""
    are_single = bool((problem.sibling == np.arange(len(problem.sibling))).all())
    return are_single and not (problem.reserves or problem.standbys)


def with_overload_price(extensions: Extensions, problem: Problem, start: Solution) -> Extensions:
    """Return extensions with the price of overload as their last term, which is 0 at first."""
    terms = (*extensions.terms, OverloadPrice(problem, start))
    return attrs.evolve(extensions, terms=terms, weights={**extensions.weights, OVERLOAD: 0.0})


def raise_price(
    problem: Problem, solution: Solution, chain_state: ChainState, state: ExtensionState, used_share: float
) -> None:
    """Set the price of overload that is due at `used_share` of the budget.

    Until it has its last value, and while all solutions have overload, the present solution is the best one.
    """
    schedule, price_before = chain_state.schedule, float(state.weight[-1])
    first_price = max(schedule.first_temperature * FIRST, NEARLY_FREE * schedule.largest_change)
    last_price = max(first_price * LAST / FIRST, LEAST_LAST * schedule.largest_change)
    state.weight[-1] = (
        first_price * (last_price / first_price) ** min(1.0, used_share / RISING_SHARE) if first_price > 0.0 else 0.0
    )
    if used_share < RISING_SHARE or has_overload(state):
        evaluate_again(problem, solution, chain_state, state)
    else:
        schedule.energy += (float(state.weight[-1]) - price_before) * float(state.value[-1])


def has_overload(state: ExtensionState) -> bool:
    """Return whether the best solution of a chain has overload under `soft_capacity`."""
    return bool(state.best[state.vanishing].any())


def remove_overload(
    problem: Problem, solution: Solution, chain_state: ChainState, extensions: ChainExtensions, soft: SoftCapacity
) -> bool:
    """Return replicas from overloaded nodes to their origins; if that is not enough, return all replicas to theirs.

    Return whether no node is overloaded then. If the search began with displaced replicas, not all return.
    """
    state = extensions.state
    most_loads = extensions.data[int(state.vanishing[0])]
    for moves_all in (False, True) if soft.begins_at_origins else (False,):
        arguments = problem, solution, soft.choice.enforced, most_loads, state, moves_all
        while has_overload(state) and return_to_origins(*arguments):
            evaluate_again(problem, solution, chain_state, state)
    return not has_overload(state)


@kernel
def return_to_origins(
    problem: Problem,
    solution: Solution,
    enforced: RuleMask,
    data: MostLoads,
    extension_state: ExtensionState,
    moves_all: bool,
) -> int:
    """Return rows on overloaded nodes to their origins where the `enforced` rules allow it; `moves_all`: all rows.

    Return how many rows have moved.
    """
    moved = 0
    for position in range(solution.totals.displaced - 1, -1, -1):
        row = solution.displaced[position]
        proposal = proposed(solution, row, problem.origin[row], NOWHERE)
        if not moves_all and _overload(solution, data, proposal.source) == 0.0:
            continue
        if moves_all or is_allowed(problem, solution, extension_state, enforced, proposal):
            copy_values(extension_state.value, extension_state.after)
            foresee(problem, solution, extension_state, proposal)
            apply_with_terms(problem, solution, extension_state, proposal)
            copy_values(extension_state.after, extension_state.value)
            moved += 1
    return moved
