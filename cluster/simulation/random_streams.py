"""Named random streams from one seed. Samples of one stream do not affect another stream."""

from __future__ import annotations

import hashlib

import numpy as np


def stream(seed: int, *path: str | int) -> np.random.Generator:
    """Return the generator of a stream, named by texts and numbers; different streams are independent."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=_key(path))))


def stream_seed(seed: int, *path: str | int) -> int:
    """Return a seed of 63 bits from the stream that `path` names."""
    state = np.random.SeedSequence(seed, spawn_key=_key(path)).generate_state(1, np.uint64)
    return int(state[0] >> np.uint64(1))


def _key(path: tuple[str | int, ...]) -> tuple[int, ...]:
    """Return one 32-bit number for each part of a path; unlike Python's own hash, the same in all processes."""
    return tuple(int.from_bytes(hashlib.sha256(repr(part).encode()).digest()[:4], "big") for part in path)
