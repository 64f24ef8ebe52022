"""Random streams of the parts of a search."""

from __future__ import annotations

import numpy as np


def stream_of(seed: np.random.SeedSequence, *parts: int) -> np.random.SeedSequence:
    """Return the child of a seed, or the child's child and so on, that the first `spawn` of each returns in this place.

    The others are not made: to make one takes as long as a hundred proposals, and most parts of a search do nothing.

    Parameters
    ----------
    parts
        Number of the child, then that of its child, and so on.
    """
    return np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, *parts), pool_size=seed.pool_size)
