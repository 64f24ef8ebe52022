"""Random streams for the parts of a search."""

from __future__ import annotations

import numpy as np


def stream_of(seed: np.random.SeedSequence, *parts: int) -> np.random.SeedSequence:
    """Return the descendant of a seed that a first call of `spawn` at each level returns at these positions.

    Its siblings are not created: creating one takes as long as a hundred proposals, and most parts of a search do
    nothing.

    Parameters
    ----------
    parts
        Index of the child, then index of its child, and so on.
    """
    return np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, *parts), pool_size=seed.pool_size)
