"""The price path: a chain pays more for a move than it costs, and ever less, so that it makes the best moves first.

At a high price only the moves that win most are worth it: large replicas between the fullest and the emptiest nodes.
The price then falls as long as fewer replicas have moved than planned for the used share of the budget, down to the
cost of a move in the energy, or, where moves cost nothing, nearly to 0. Where the number of moves is limited, the price
stays where the limit is reached, and better moves take the place of worse ones.
"""

from __future__ import annotations

import math

from plb.compiler import kernel
from plb.energy.terms import present_energy
from plb.search.budget import ENDLESS
from plb.search.chain_state import ChainState
from plb.search.extension_kernels import ExtensionState, copy_values, weighed
from plb.state.arrays import TENTHS, Problem, Solution

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
FIRST = 2.0
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
    """The price of moves of one chain.

    Parameters
    ----------
    problem
        The problem, with the cost of a move in the energy.
    limit
        Number of replicas that the search may displace.
    proposals
        Proposals of the search, as far as they are known.
    """

    def __init__(self, problem: Problem, limit: int, proposals: float = math.inf) -> None:
        self._problem, self._limit = problem, limit
        self._stages = int(max(FEWEST_STAGES, min(STAGES, proposals / PROPOSALS_A_STAGE)))
        self._costs = math.isfinite(problem.weights.tenths_of_move)
        self._price = self._least = self._fall = 1.0
        self._stage, self._continues = -1, False
        self._energy, self._since = 0.0, 0

    @property
    def without_price(self) -> Problem:
        """The problem with moves that cost nothing, for the probes."""
        return self._at(math.inf)

    def left(self, done: int, whole: float) -> int:
        """Return how many proposals of `whole`, of which some are `done`, are left of the present stage; at least 1."""
        return ENDLESS if whole == math.inf else max(1, math.ceil((self._stage + 1) / self._stages * whole) - done)

    def is_quiet(self, displaced: int, energy: float, done: int, patience: float) -> bool:
        """Return whether the price falls no further and the search has found nothing better for long.

        Parameters
        ----------
        displaced
            Number of replicas that are not on their origins.
        energy
            Energy at the price of the stage that ends.
        done
            Proposals so far.
        patience
            Proposals without a move after which a search gives up, if none has won what a plan has to win.
        """
        is_cheap = self._costs and self._price <= WIN * self._least
        if is_cheap and displaced == 0 and done >= patience:
            return True
        falls = self._price > self._least and displaced < self._limit
        if falls or energy < self._energy - NO_CHANGE * abs(self._energy):
            self._since = done
        return done - self._since >= QUIET * patience

    def is_due(self, used: float) -> bool:
        """Return whether a new stage begins at this used share of the budget."""
        return int(used * self._stages) > self._stage

    def begin(self, largest_change: float, displaced: int = 0) -> None:
        """Set the first price and the last one.

        Parameters
        ----------
        largest_change
            Largest energy change of the probes.
        displaced
            Number of replicas that have moved: where a search goes on, the last price is the first one.
        """
        self._continues = displaced > 0
        self._price = FIRST * largest_change
        self._least = TENTHS / self._problem.weights.tenths_of_move if self._costs else NEARLY_FREE * self._price
        self._price = self._least if self._continues else max(self._price, self._least)
        ratio = self._least / self._price if self._price > 0.0 else 1.0
        self._fall = ratio ** (1.0 / (FALLING_SHARE * self._stages))

    def begin_stage(self, energy: float) -> None:
        """Note the energy at the new price."""
        self._energy = energy

    def next_problem(self, used: float, displaced: int) -> Problem:
        """Return the problem of the next stage.

        Parameters
        ----------
        used
            Used share of the budget.
        displaced
            Number of replicas that are not on their origins.
        """
        self._stage = int(used * self._stages)
        planned = self._limit * (1.0 if self._continues else min(1.0, used / MOVING_SHARE) ** 2)
        if displaced < planned:
            self._price = max(self._least, self._price * self._fall ** (1 if displaced else UNMOVED))
            if self._price < self._least * (1.0 + 1e-9):
                self._price = self._least
        elif displaced > planned:
            self._price *= RISE ** (1.0 / self._stages)
        return self._at(TENTHS / self._price if self._price > 0.0 else math.inf)

    def _at(self, tenths_of_move: float) -> Problem:
        return self._problem._replace(weights=self._problem.weights._replace(tenths_of_move=tenths_of_move))


@kernel
def evaluate_again(
    problem: Problem, solution: Solution, chain_state: ChainState, extension_state: ExtensionState
) -> None:
    """Make the present solution the best one: energies at another price say nothing."""
    schedule = chain_state.schedule
    schedule.energy = present_energy(problem, solution) + weighed(extension_state, extension_state.value)
    schedule.best_energy = schedule.round_energy = schedule.energy
    schedule.best_movement = solution.totals.movement
    schedule.best_length = schedule.undo_length
    copy_values(extension_state.value, extension_state.best)
