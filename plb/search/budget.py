"""The budget of a search, why a search ends, and what balancing chooses where the settings leave it open."""

from __future__ import annotations

import math
from enum import Enum
from functools import lru_cache
from typing import Any

import attrs
import numpy as np

from plb.compiler import working_time
from plb.errors import InvalidValueError
from plb.model.role import PRIMARY
from plb.settings.config import LONG_SEARCH, Combination, PlbConfig
from plb.settings.search import Cooling
from plb.state.arrays import Problem
from plb.validation import check_count, check_number, with_plain_scalars

ENDLESS = 2**40
"""Rounds of a chain that ends only by time or convergence."""


class EndReason(Enum):
    """Why a search ended."""

    NOTHING_TO_DO = "nothing to do"
    NO_PROPOSAL_POSSIBLE = "no replica may move"
    BUDGET_OF_PROPOSALS = "the budget of proposals is used up"
    CONVERGED = "the energy no longer changes"
    NOT_WORTH_A_MOVE = "no moves were found that win twice what they cost (w_imbalance)"
    OUT_OF_TIME = "the time limit was reached"
    DECIDED = "the policy has decided"
    UNCHANGED = "nothing has changed since the last search of this kind"


@attrs.frozen(field_transformer=with_plain_scalars)
class Budget:
    """Limits of a search."""

    proposals: int | None = None
    """Proposals over all chains; None: as configured, or without limit where `seconds` is given."""
    seconds: float | None = None
    """Wall time of the call, in which the plan is made as well; all searches of the call share it. A plan that this
    limit ends early is marked as not reproducible.
    """
    until: float | None = attrs.field(default=None, kw_only=True)
    """Reading of `plb.compiler.working_time` at which annealing ends, even before the first round is complete. Set from
    the search timeouts of the configuration.
    """
    temperature: float | None = attrs.field(default=None, kw_only=True)
    """First temperature of balancing, in units of the energy. With the one of the previous plan, `Plan.temperature`,
    annealing goes on over several calls; balancing then runs again even if nothing has changed. None: as configured.
    """

    def __attrs_post_init__(self) -> None:
        if self.proposals is not None:
            proposals = check_count("budget", "proposals", self.proposals)
            if proposals > ENDLESS:
                raise InvalidValueError("budget", "proposals", self.proposals, "a whole number >= 0 and <= 2^40")
            # small NumPy integer types would overflow, and kernels would be compiled for them again
            object.__setattr__(self, "proposals", proposals)
        if self.seconds is not None:
            check_number("budget", "seconds", self.seconds)
        if self.until is not None:
            check_number("budget", "until", self.until, low=-math.inf)
        if self.temperature is not None:
            object.__setattr__(self, "temperature", check_number("budget", "temperature", self.temperature))

    @classmethod
    def of(cls, budget: Budget | int | None) -> Budget:
        """Return a budget from a `Budget`, a number of proposals, or None."""
        return budget if isinstance(budget, Budget) else cls(proposals=budget)

    def within(self, timeout: float | None) -> Budget:
        """Return this budget with an end at most `timeout` seconds from now; None: no further end."""
        if timeout is None:
            return self
        end = working_time() + timeout
        return attrs.evolve(self, until=end if self.until is None else min(end, self.until))

    def begun(self) -> Budget:
        """Return this budget with an end, if it has a limit of seconds, for a call that begins now."""
        return self.within(self.seconds)

    def each(self, searches: int) -> Budget:
        """Return the budget of each of `searches` searches of a call that has begun: an equal part of the time left."""
        if self.seconds is None or self.until is None:
            return self
        seconds_left = max(0.0, self.until - working_time())
        return attrs.evolve(self, seconds=min(self.seconds, seconds_left / searches), until=None)

    @property
    def is_up(self) -> bool:
        """Whether `until` has passed."""
        return self.until is not None and working_time() >= self.until

    def share(self, searches: int) -> Budget:
        """Return the budget of the next of `searches` searches: it ends after an equal part of the time left."""
        if self.until is None:
            return self
        now = working_time()
        return attrs.evolve(self, until=now + (self.until - now) / searches)

    def deadline(self, begun: float, share: float) -> float | None:
        """Return when a chain has to end that may use this share, in [0, 1], of the time from `begun` on, or None."""
        ends = [] if self.seconds is None else [begun + self.seconds * share]
        ends += [] if self.until is None else [begun + (self.until - begun) * share]
        return min(ends, default=None)


PROPOSALS_A_SECOND = 1_000_000
"""Assumed speed of a search with a budget of seconds."""
PROPOSALS_A_REPLICA = 30
"""Least number of proposals of balancing for each movable replica, where neither budget nor settings give one."""
LONG_FROM = 100
"""Proposals for each movable replica from which a hot search pays, where moves cost nothing."""
EXCHANGES_FROM = 1000
"""Proposals for each movable replica from which a search with a price of moves finds too few other proposals."""
FEW_MOVES = 0.5
"""Share of the movable replicas below which a limit of moves decides which of them to move."""
ROUNDS, PROPOSALS_A_ROUND, CHAINS, INITIAL_TEMPERATURE = 25, 60, 4, 1.0
"""What a search has where the settings leave it open."""

USUAL: dict[str, Any] = {
    "chains": CHAINS,
    "cooling": Cooling.BY_ROUND,
    "initial_temperature": INITIAL_TEMPERATURE,
    "exchange_probability": 0.1,
    "exchange_moved_replicas": False,
    "similar_exchange_share": 0.0,
    "biased_sampling": False,
}
"""Choices of placement and repair, and of balancing where the energy is a product, the cooling is given, or terms of
users, of which nothing is known, get a long search."""
PRICED: dict[str, Any] = {**USUAL, "chains": 1, "cooling": Cooling.BY_PRICE, "initial_temperature": 1e-4}
"""Choices for short searches, and where moves cost something or only few are allowed."""
LONG: dict[str, Any] = {**USUAL, **{name: LONG_SEARCH[name] for name in USUAL if name in LONG_SEARCH}}
"""Choices for long searches where moves cost nothing."""
EXCHANGES: dict[str, Any] = {"exchange_probability": 0.5, "similar_exchange_share": 0.7}


def chosen_settings(problem: Problem, config: PlbConfig, budget: Budget, movable: int, limit: int) -> PlbConfig:
    """Return the settings with a value for each setting of balancing that is None.

    `movable`: number of movable replicas; `limit`: most replicas that balancing may displace.
    """
    least_proposals = 0 if config.combination is Combination.SERVICE_FABRIC else PROPOSALS_A_REPLICA * movable
    per_round = _proposals_a_round(config, least_proposals)
    defaults = _default_settings(problem, config, budget, per_round, movable, limit)
    chosen = _with_defaults(config, per_round, tuple(defaults.items()))
    is_swappable = bool((problem.role[problem.movable] == PRIMARY).any())
    is_service_fabric = config.combination is Combination.SERVICE_FABRIC
    return chosen if is_swappable or is_service_fabric else _without_swaps(chosen)


def _default_settings(
    problem: Problem, config: PlbConfig, budget: Budget, per_round: int, movable: int, limit: int
) -> dict[str, Any]:
    """Return the values of the settings that are None, by name.

    `per_round`: proposals of a chain in a round; `movable`: number of movable replicas; `limit`: most replicas that
    balancing may displace.
    """
    if config.combination is Combination.SERVICE_FABRIC or _is_schedule_given(config, budget):
        return USUAL
    proposals_per_replica = proposals_of(_with_defaults(config, per_round, ()), budget) / max(1, movable)
    if config.extension_terms and proposals_per_replica >= LONG_FROM:
        return USUAL
    moves_cost = math.isfinite(problem.weights.tenths_of_move)
    if not moves_cost and limit >= FEW_MOVES * movable and proposals_per_replica >= LONG_FROM:
        return LONG if proposals_per_replica >= LONG_FROM * CHAINS else {**LONG, "chains": 1}
    exchanges = EXCHANGES if proposals_per_replica >= EXCHANGES_FROM else {}
    return {**PRICED, **exchanges, "biased_sampling": _is_only_imbalance(problem, config)}


def _is_schedule_given(config: PlbConfig, budget: Budget) -> bool:
    """Return whether the settings or the host say how a chain cools."""
    temperatures = config.initial_temperature, config.absolute_initial_temperature, budget.temperature
    is_specific = config.enable_cluster_specific_initial_temperature
    return config.cooling is not None or config.restarts > 0 or is_specific or temperatures != (None, None, None)


def _is_only_imbalance(problem: Problem, config: PlbConfig) -> bool:
    """Return whether of all energy terms only imbalance can be lowered by moves."""
    weights = problem.weights
    expected = weights.expected_failovers > 0.0 or weights.expected_overload > 0.0
    fragmentation = weights.fragmentation > 0.0 and len(problem.held_out) > 0
    return not (expected or fragmentation or config.extension_terms)


def proposals_of(config: PlbConfig, budget: Budget) -> float:
    """Return the number of proposals of all chains in a search, estimated from the seconds; infinite without limit."""
    if budget.proposals is not None or budget.seconds is not None:
        within_seconds = math.inf if budget.seconds is None else budget.seconds * PROPOSALS_A_SECOND
        return min(within_seconds, math.inf if budget.proposals is None else budget.proposals)
    per_round = config.simulated_annealing_iterations_per_round or PROPOSALS_A_ROUND
    return (config.max_simulated_annealing_iterations or ROUNDS) * per_round * (config.chains or 1)


def _proposals_a_round(config: PlbConfig, least_proposals: int) -> int:
    """Return the proposals of a chain in a round; by default all chains make `least_proposals` together at least."""
    if config.simulated_annealing_iterations_per_round is not None:
        return config.simulated_annealing_iterations_per_round
    rounds = config.max_simulated_annealing_iterations or ROUNDS
    return max(PROPOSALS_A_ROUND, -(-least_proposals // (rounds * (config.chains or 1))))


@lru_cache(maxsize=64)
def _without_swaps(config: PlbConfig) -> PlbConfig:
    """Return settings that propose no swaps of roles, unless swaps are all that they propose."""
    only_swaps = config.swap_primary_probability == 1.0
    return config if only_swaps else attrs.evolve(config, swap_primary_probability=0.0)


@lru_cache(maxsize=64)
def _with_defaults(config: PlbConfig, per_round: int, defaults: tuple[tuple[str, Any], ...]) -> PlbConfig:
    """Return settings with `per_round` proposals of a chain in a round, and the values of `defaults` for what is None.

    `defaults`: pairs of the name and the value of a setting.
    """
    chosen = {name: value for name, value in defaults if getattr(config, name) is None}
    return attrs.evolve(config, simulated_annealing_iterations_per_round=per_round, **chosen)


def stream_of(seed: np.random.SeedSequence, *positions: int) -> np.random.SeedSequence:
    """Return the descendant of a seed at these positions, one a level, as repeated `spawn` would make it."""
    return np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, *positions), pool_size=seed.pool_size)
