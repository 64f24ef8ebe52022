"""Random proposals, as a chain generates them."""

from __future__ import annotations

import numpy as np

from plb.compiler import Stream, kernel
from plb.search.annealing.move_generation import generate_proposal


@kernel
def _draw(problem, solution, choice, rng, drawn):
    """Write row, target and partner of random proposals."""
    for number in range(drawn.shape[0]):
        proposal = generate_proposal(problem, solution, choice, rng)
        drawn[number, 0], drawn[number, 1], drawn[number, 2] = proposal.row, proposal.target, proposal.partner


def random_proposals(configuration, choice, seed, count):
    """Return row, target and partner of random proposals; none is made."""
    drawn = np.empty((count, 3), np.int64)
    _draw(configuration.problem, configuration.solution, choice, Stream(np.random.SeedSequence(seed)), drawn)
    return drawn.tolist()
