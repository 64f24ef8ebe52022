"""Annealing in plain Python with extension terms and constraints: chains run in turn, and the best result is kept."""

from __future__ import annotations

import numpy as np

from plb.compiler import working_time
from plb.search.budget import Budget
from plb.search.cooling_schedule import Settings, end_reason_of
from plb.search.extended.chain import ExtendedChain
from plb.search.extended.extensions import Extensions
from plb.search.move_generation import Choice
from plb.search.result import Annealed
from plb.settings.config import Checks, PlbConfig
from plb.state.arrays import MOVEMENT, Problem, Solution


def anneal_extended_chains(
    extensions: Extensions,
    problem: Problem,
    start: Solution,
    choice: Choice,
    settings: Settings,
    config: PlbConfig,
    seed: np.random.SeedSequence,
    budget: Budget,
    capacity: int,
) -> Annealed:
    """Anneal from `start`, which is unchanged, and return the best result; ties as in `plb.search.annealing`.

    Parameters
    ----------
    settings
        Rounds and proposals of a chain.
    capacity
        Largest number of moves of one proposal; 0 where no proposal has further moves.
    """
    begun = working_time()
    chains, late = [], False
    for index, stream in enumerate(seed.spawn(config.chains)):
        chain = ExtendedChain(extensions, problem, start, choice, settings, stream, capacity)
        late |= chain.run(config.checks, budget.deadline(begun, (index + 1) / config.chains))
        if config.checks is not Checks.OFF:
            chain.check("end of annealing")
        chains.append(chain)
    results = [chain.best() for chain in chains]
    solution, energy = min(results, key=lambda result: (result[1], result[0].counts[MOVEMENT]))
    tally = np.sum([chain.tally for chain in chains], axis=0)
    return Annealed(solution, energy, tally, end_reason_of([chain.schedule for chain in chains], late=late))
