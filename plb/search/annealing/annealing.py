"""Simulated annealing over configurations (docs/service-fabric.md, Annealing).

Several chains start from the same solution, each with a separate random stream, and return their best solution. The
lowest energy wins; ties go to the lower movement cost and then to the first chain. The result does not depend on the
number of threads.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import attrs
import numpy as np

from plb.array_types import NOWHERE, Int
from plb.compiler import Stream, working_time
from plb.evaluation.delta import compare_with_scratch
from plb.evaluation.proposals import GENERATED
from plb.extensions.energy_terms import VanishingTerm
from plb.search.annealing.chain import (
    ChainState,
    Step,
    StepAddresses,
    UndoLog,
    anneal,
    extended_step,
    return_to_best,
    return_to_start,
)
from plb.search.annealing.compound_steps import compound_proposal, larger_proposal
from plb.search.annealing.cooling_schedule import (
    CONVERGED,
    RUNNING,
    UNSET,
    Schedule,
    Settings,
    end_reason_of,
    new_schedule,
)
from plb.search.annealing.move_generation import Choice
from plb.search.annealing.neighbourhoods import (
    MOST_ASKED,
    SINGLE_ONLY,
    kinds_of,
    new_neighbourhoods,
    that_apply,
)
from plb.search.annealing.overload_price import (
    MOST_FALLING,
    QUIET_FROM,
    SOFT_SHARE,
    PricePath,
    SoftCapacity,
    evaluate_again,
    raise_price,
    remove_overload,
)
from plb.search.budget import (
    CHAINS,
    ENDLESS,
    INITIAL_TEMPERATURE,
    PROPOSALS_A_REPLICA,
    PROPOSALS_A_ROUND,
    ROUNDS,
    Budget,
    EndReason,
    proposals_of,
)
from plb.search.extension_kernels import NO_KERNEL, ExtensionState
from plb.search.extension_state import ChainExtensions, compare_extension_state, extensions_of_chain
from plb.search.extensions import Extensions, energy_with
from plb.search.result import Annealed, Search, larger_steps_of, new_tally
from plb.search.transactions import Places, go_to, new_transaction, places_of
from plb.settings.config import Checks, PlbConfig
from plb.settings.search import Cooling
from plb.state.arrays import Problem, Proposal, Solution
from plb.state.replica_table import merged

THREADED_PROPOSALS = 20_000
"""Below this number of proposals per chain, threads cost more time than they save."""
UNDO_LOG_SIZE = 2**16
"""Accepted proposals without a new best after which a chain returns to its best solution."""
TIMED_STRETCH, STRETCH_IN_PYTHON = 4096, 64
"""Proposals between two readings of the clock; the latter with extensions in plain Python."""
SECONDS_A_MOVE = 3e-6
"""What the plan takes for each move after the search, which ends as much earlier."""
LEAST_SECONDS = 1e-9
"""Keeps the used share of a time that is over finite."""


def anneal_chains(search: Search, choice: Choice, seed: np.random.SeedSequence, budget: Budget) -> Annealed:
    """Anneal with the configured number of chains, change `search.solution` to the best result, and return its energy.

    The result also has the temperature, the reason of the end, and the counts of proposals over all chains.
    """
    config, extensions, start = search.config, search.extensions, search.solution
    if not len(choice.creation) and not (len(choice.movable) and choice.migrations):
        energy = energy_with(extensions, search.problem, start).total
        return Annealed(energy, new_tally(), EndReason.NO_PROPOSAL_POSSIBLE)
    problem = without_leaving_load(search.problem, config)
    search = attrs.evolve(search, problem=problem)
    settings = _settings(config, budget, len(choice.creation) + choice.migrations)
    step_moves = _most_moves(problem, start, choice)
    # rows that may change their place without being listed as displaced
    others = merged(search.others, choice.creation)
    in_python = extensions is not None and extensions.has_python
    threads = 1 if in_python else _threads(config, settings)
    start_time = working_time()

    def check(chain: _Chain, moment: str) -> None:
        """Raise `CheckFailedError`, beginning with `moment`, if sums of a chain are not as computed from scratch."""
        compare_with_scratch(problem, chain.solution, moment)
        if extensions is not None:
            compare_extension_state(extensions, problem, chain.solution, chain.extensions, moment)

    in_place = threads == 1 and _may_be_in_place(problem, choice, settings, extensions)
    new_chains = _new_chains(search, choice, seed, settings, step_moves, in_place=in_place)

    def run(number: int, chain: _Chain) -> _Chain:
        """Run the chain with this `number`, from 0, to its end and return it; one thread's chains share the time."""
        deadline = budget.deadline(start_time, 1.0 if threads > 1 else (number + 1) / len(new_chains))
        after_each = check if config.checks is Checks.STEP else None
        path = _price_path(problem, choice, config, budget)
        chain = _run_chain(chain, problem, choice, settings, deadline, after_each, path, in_python=in_python)
        chain.end(problem, others, in_place=in_place)
        return chain

    chains = _all_of(run, new_chains, threads)
    best = min(chains, key=lambda chain: (chain.schedule.best_energy, chain.schedule.best_movement))
    if best.places is not None:
        go_to(problem, start, best.places, others)
    if config.checks is not Checks.OFF:
        check(best, "end of annealing")
    for chain in chains:
        chain.extensions.finish()
    energy = float(best.schedule.best_energy)
    if extensions is not None:
        energy = energy_with(extensions, problem, start).total
    return _annealed(chains, best, energy, config.larger_neighbourhoods)


def _price_path(problem: Problem, choice: Choice, config: PlbConfig, budget: Budget) -> PricePath | None:
    """Return the price path of a chain, or None if the settings do not cool by price."""
    if config.cooling is not Cooling.BY_PRICE:
        return None
    return PricePath(problem, choice.migrations, proposals_of(config, budget))


def _may_be_in_place(problem: Problem, choice: Choice, settings: Settings, extensions: Extensions | None) -> bool:
    """Return whether chains can work in the start solution itself: the undo log surely leads back to it."""
    terms = () if extensions is None else extensions.terms
    prices_overload = any(isinstance(term, VanishingTerm) for term in terms)
    return not (prices_overload or _is_compound(problem, choice)) and _proposals_of(settings) < UNDO_LOG_SIZE


def _annealed(chains: Sequence[_Chain], best: _Chain, energy: float, names: Sequence[str]) -> Annealed:
    """Return the result of `chains`, of which `best` has the lowest `energy`; `names`: of the larger neighbourhoods."""
    neighbourhoods = [chain.chain_state.neighbourhoods for chain in chains]
    return Annealed(
        energy,
        tally=np.sum([chain.tally for chain in chains], axis=0),
        end_reason=end_reason_of([chain.schedule for chain in chains], late=any(chain.timed_out for chain in chains)),
        temperature=float(best.schedule.temperature),
        larger_steps=larger_steps_of(names, neighbourhoods),
    )


def without_leaving_load(problem: Problem, config: PlbConfig) -> Problem:
    """Return the problem without the load of departing replicas, unless the settings count it."""
    if not config.prevent_transient_overcommit or config.count_disappearing_load_for_simulated_annealing:
        return problem
    return problem._replace(leaving_load=np.zeros_like(problem.leaving_load))


def _all_of(run: Callable[[int, _Chain], _Chain], chains: Sequence[_Chain], threads: int) -> list[_Chain]:
    """Call `run` with the number of each chain and the chain, on `threads` threads; return the chains it returns."""
    if threads == 1:
        return [run(number, chain) for number, chain in enumerate(chains)]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(run, range(len(chains)), chains))


def _most_moves(problem: Problem, start: Solution, choice: Choice) -> int:
    """Return the largest number of moves that one step may try; 0 where no step has several."""
    proposal_moves = 3 * len(start.node) + 2 if _is_compound(problem, choice) else 0
    return proposal_moves + (MOST_ASKED if choice.larger_share else 0)


def _is_compound(problem: Problem, choice: Choice) -> bool:
    """Return whether a proposal of a search may cause further moves: of siblings or of children."""
    return choice.makes_spread_moves or (problem.related and bool((problem.first_child != NOWHERE).any()))


@attrs.define(eq=False)
class _Chain:
    """A chain and its state."""

    solution: Solution
    extensions: ChainExtensions
    chain_state: ChainState
    rng: Stream
    timed_out: bool = False
    """Whether the deadline has ended the chain."""
    places: Places | None = None
    """The places of its best solution, at its end; None: it has no solution without overload."""

    def end(self, problem: Problem, others: Int, *, in_place: bool) -> None:
        """Return to the best solution and note its places; `in_place`: return to the start then, for the next chain.

        `others`: (n,) rows that an earlier search may have placed or dropped.
        """
        undo_log = self.chain_state.undo_log
        return_to_best(problem, self.solution, self.schedule, undo_log, self.extension_state)
        if math.isfinite(self.schedule.best_energy):
            self.places = places_of(problem, self.solution, others)
        if in_place:
            return_to_start(problem, self.solution, self.schedule, undo_log)

    @property
    def extension_state(self) -> ExtensionState:
        """What its kernels use of the extensions."""
        return self.extensions.state

    @property
    def schedule(self) -> Schedule:
        """State of the chain, see `plb.search.annealing.cooling_schedule`."""
        return self.chain_state.schedule

    @property
    def tally(self) -> Int:
        """(TALLY_SIZE,) number of proposals by outcome."""
        return self.chain_state.tally


def _new_chains(
    search: Search, choice: Choice, seed: np.random.SeedSequence, settings: Settings, step_moves: int, *, in_place: bool
) -> list[_Chain]:
    """Return new chains, each with a copy of the solution, or `in_place` all with the solution itself, in turn.

    `step_moves`: most moves of a step of several moves.
    """
    problem, start, config, extensions = search.problem, search.solution, search.config, search.extensions
    sort_displaced(start)
    configured = kinds_of(config.larger_neighbourhoods) if choice.larger_share else []
    kinds, services = that_apply(configured, problem, choice.movable)
    chains = []
    for stream in seed.spawn(_chains(config)):
        solution = start if in_place else start.copy()
        undo_log = new_undo_log(_proposals_of(settings), step_moves)
        neighbourhoods = new_neighbourhoods(kinds, choice.larger_share, services) if kinds else SINGLE_ONLY
        state = ChainState(new_schedule(), undo_log, new_tally(), new_transaction(step_moves), neighbourhoods)
        chain_extensions = extensions_of_chain(extensions, problem, solution)
        chains.append(_Chain(solution, chain_extensions, state, Stream(stream)))
    addresses = _addresses_of_steps(chains[0], problem, choice, has_extensions=extensions is not None)
    for chain in chains:
        chain.chain_state = chain.chain_state._replace(addresses=addresses)
    return chains


def new_undo_log(proposals: int, step_moves: int) -> UndoLog:
    """Return the undo log of a chain of `proposals` proposals, of which a step may have `step_moves` further moves."""
    entries = min(proposals, UNDO_LOG_SIZE) + step_moves + 1
    return UndoLog(np.empty(entries, np.int64), np.empty(entries, np.int64), np.empty(entries, np.int64))


def sort_displaced(solution: Solution) -> None:
    """Sort the displaced rows: their order depends on earlier moves, and a search samples by it."""
    displaced = solution.displaced[: solution.totals.displaced]
    displaced.sort()
    solution.displaced_at[displaced] = np.arange(len(displaced))


def _addresses_of_steps(chain: _Chain, problem: Problem, choice: Choice, *, has_extensions: bool) -> StepAddresses:
    """Return addresses of the kernels for steps that only few chains make, NO_KERNEL where they are not needed.

    A kernel that no address asks for is not compiled. `has_extensions`: whether the chain has any terms or constraints.
    """
    solution, chain_state, extension_state = chain.solution, chain.chain_state, chain.extension_state
    step = Step(Proposal(0, 0), False, 0.0)
    arguments = (problem, solution, choice, chain_state, extension_state, chain.rng)
    compound = extended = larger = NO_KERNEL
    if _is_compound(problem, choice):
        compound = compound_proposal.address(None, *arguments, step)
    if has_extensions:
        extended = extended_step.address(None, problem, solution, chain_state, extension_state, step)
    if choice.larger_share:
        larger = larger_proposal.address(int, *arguments, 0)
    return StepAddresses(compound, extended, larger)


def _run_chain(
    chain: _Chain,
    problem: Problem,
    choice: Choice,
    settings: Settings,
    deadline: float | None,
    check: Callable[[_Chain, str], None] | None,
    path: PricePath | None,
    *,
    in_python: bool,
) -> _Chain:
    """Run a chain to its end and return it.

    `deadline`: reading of `working_time` at which it ends, or None; `check`: called with the chain and the moment after
    every proposal, or None; `path`: the falling price of moves, or None; `in_python`: whether extensions are in Python,
    so that the clock is read more often.
    """
    timed_stretch = STRETCH_IN_PYTHON if in_python else TIMED_STRETCH
    stretch = _proposals_of(settings) if deadline is None and not in_python else timed_stretch
    stretch = 1 if check else stretch
    begun = working_time()
    priced_problem = problem if path is None else _begin_path(chain, path, choice, settings)
    soft, present_choice = None, choice
    if len(chain.extension_state.vanishing):
        soft = _begin_soft(chain, problem, choice, settings)
        stretch, present_choice = min(stretch, timed_stretch), soft.choice
    search_proposals = math.inf if deadline is not None and settings.timed else _search_proposals(choice, settings)
    patience = math.inf if choice.larger_share else QUIET_FROM + len(choice.movable)
    search_proposals = search_proposals if path is None else min(search_proposals, MOST_FALLING * patience)
    while chain.schedule.end == RUNNING and not chain.timed_out:
        proposals = stretch
        if path is not None:
            priced_problem = _follow_price(chain, path, priced_problem, settings, search_proposals, patience)
            proposals = min(stretch, path.left(_proposals_made(chain, settings), search_proposals))
        if soft is not None:
            used_share = _used_share(chain, settings, search_proposals)
            if used_share < SOFT_SHARE:
                raise_price(problem, chain.solution, chain.chain_state, chain.extension_state, used_share)
            else:
                _harden(chain, problem, soft)
                soft, present_choice = None, choice
        _anneal(chain, priced_problem, present_choice, settings, proposals)
        if check:
            check(chain, f"proposal {chain.tally[GENERATED]}")
        if deadline is not None:
            now, end = working_time(), deadline - SECONDS_A_MOVE * int(chain.solution.totals.displaced)
            chain.timed_out = now >= end
            chain.schedule.progress = (now - begun) / max(end - begun, LEAST_SECONDS)
    chain.timed_out &= bool(chain.schedule.end == RUNNING)
    if soft is not None:
        _harden(chain, problem, soft)
    if path is not None:
        return_to_best(
            priced_problem, chain.solution, chain.schedule, chain.chain_state.undo_log, chain.extension_state
        )
        evaluate_again(problem, chain.solution, chain.chain_state, chain.extension_state)
    return chain


def _begin_soft(chain: _Chain, problem: Problem, choice: Choice, settings: Settings) -> SoftCapacity:
    """Start a chain with soft capacity and without larger steps; return its proposals and what `_harden` restores."""
    at_origins = chain.solution.totals.displaced == 0
    soft = SoftCapacity(chain.chain_state.neighbourhoods, choice, begins_at_origins=bool(at_origins))
    chain.chain_state = chain.chain_state._replace(neighbourhoods=SINGLE_ONLY)
    _anneal(chain, problem, soft.choice, settings, 0)
    return soft


def _harden(chain: _Chain, problem: Problem, soft: SoftCapacity) -> None:
    """Remove the overload of the best solution and make capacity hard; if overload stays, the chain has no result."""
    state, chain_state = chain.extension_state, chain.chain_state
    return_to_best(problem, chain.solution, chain.schedule, chain_state.undo_log, state)
    chain.schedule.undo_length = chain.schedule.best_length = 0
    with chain.extensions.calls():
        if not remove_overload(problem, chain.solution, chain_state, chain.extensions, soft):
            chain.schedule.best_energy, chain.schedule.end = math.inf, CONVERGED
    chain.extensions.raise_error()
    chain.chain_state = chain_state._replace(neighbourhoods=soft.neighbourhoods)


def _anneal(chain: _Chain, problem: Problem, choice: Choice, settings: Settings, proposals: int) -> None:
    """Run a chain for at most `proposals` more proposals, and raise the error of an extension, if there was one."""
    arguments = (problem, chain.solution, choice, settings, chain.chain_state, chain.extension_state, chain.rng)
    with chain.extensions.calls():
        anneal(*arguments, proposals)
    chain.extensions.raise_error()


def _proposals_made(chain: _Chain, settings: Settings) -> int:
    """Return the number of proposals that a chain has made."""
    return chain.schedule.rounds * settings.simulated_annealing_iterations_per_round + chain.schedule.step


def _used_share(chain: _Chain, settings: Settings, search_proposals: float) -> float:
    """Return the used share of the time or of `search_proposals`, the proposals of the whole search; the larger one."""
    return max(chain.schedule.progress, _proposals_made(chain, settings) / search_proposals)


def _search_proposals(choice: Choice, settings: Settings) -> int:
    """Return the number of proposals of a chain over which the prices of moves and of overload change.

    These are all its proposals, or a usual number if its rounds have no limit.
    """
    if settings.rounds < ENDLESS:
        return _proposals_of(settings)
    return max(ROUNDS * PROPOSALS_A_ROUND, PROPOSALS_A_REPLICA * len(choice.movable))


def _begin_path(chain: _Chain, path: PricePath, choice: Choice, settings: Settings) -> Problem:
    """Probe where moves cost nothing, which sets the first price of `path`; return the problem without a price."""
    _anneal(chain, path.without_price, choice, settings, 0)
    path.begin(chain.schedule.largest_change, int(chain.solution.totals.displaced))
    return path.without_price


def _follow_price(
    chain: _Chain,
    path: PricePath,
    priced_problem: Problem,
    settings: Settings,
    search_proposals: float,
    patience: float,
) -> Problem:
    """Return the problem at the price that is due; end a chain that finds nothing more at the last price.

    `priced_problem`: at the present price; `search_proposals`: number in the whole search; `patience`: proposals
    without a move after which a chain may end.
    """
    displaced, done_proposals = int(chain.solution.totals.displaced), _proposals_made(chain, settings)
    used_share = _used_share(chain, settings, search_proposals)
    if not path.is_due(used_share):
        return priced_problem
    if path.is_quiet(displaced, float(chain.schedule.energy), done_proposals, patience):
        chain.schedule.end = CONVERGED
        return priced_problem
    priced_problem = path.next_problem(used_share, displaced)
    evaluate_again(priced_problem, chain.solution, chain.chain_state, chain.extension_state)
    path.begin_stage(float(chain.schedule.energy))
    return priced_problem


def _settings(config: PlbConfig, budget: Budget, least_proposals: int) -> Settings:
    """Return the annealing settings of each chain, such that all chains together keep to the budget.

    With only a time budget, a chain generates `least_proposals` proposals, one for each replica that may be placed or
    moved, before it may converge: in a large cluster a round changes little.
    """
    round_limit, per_round = config.max_simulated_annealing_iterations, config.simulated_annealing_iterations_per_round
    per_round = PROPOSALS_A_ROUND if per_round is None else per_round
    rounds = ENDLESS if round_limit is None else round_limit
    if per_round == 0:
        rounds, per_round = 0, 1
    elif budget.proposals is not None:
        per_chain = budget.proposals // _chains(config)
        per_round = max(1, min(per_round, per_chain))
        rounds = per_chain // per_round
    elif budget.seconds is not None:
        rounds = ENDLESS
    by_budget = config.cooling in (Cooling.BY_BUDGET, Cooling.BY_PRICE)
    absolute_temperature = config.absolute_initial_temperature if budget.temperature is None else budget.temperature
    coefficient = config.cluster_specific_temperature_coefficient
    return Settings(
        rounds,
        per_round,
        config.initial_temperature_probe_count,
        INITIAL_TEMPERATURE if config.initial_temperature is None else config.initial_temperature,
        coefficient if config.enable_cluster_specific_initial_temperature else UNSET,
        config.fast_balancing_temperature_decay_rate,
        least=least_proposals if budget.seconds is not None and budget.proposals is None else 0,
        absolute_temperature=UNSET if absolute_temperature is None else absolute_temperature,
        quiet_change=config.quiet_change,
        absolute_quiet_change=UNSET if config.absolute_quiet_change is None else config.absolute_quiet_change,
        quiet_rounds=config.quiet_rounds,
        restarts=config.restarts,
        allowed_probes=config.initial_temperature_probe_count if by_budget else 0,
        by_budget=by_budget,
        timed=rounds == ENDLESS,
        last_temperature=config.last_temperature,
    )


def _chains(config: PlbConfig) -> int:
    """Return the number of chains."""
    return CHAINS if config.chains is None else config.chains


def _proposals_of(settings: Settings) -> int:
    """Return the number of proposals of a chain."""
    return settings.rounds * settings.simulated_annealing_iterations_per_round


def _threads(config: PlbConfig, settings: Settings) -> int:
    """Return on how many threads the chains run: one if each step is checked or the chains are short."""
    if config.checks is Checks.STEP or _proposals_of(settings) < THREADED_PROPOSALS:
        return 1
    return min(config.threads or os.cpu_count() or 1, _chains(config))
