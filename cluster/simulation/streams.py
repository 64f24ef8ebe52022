"""Random streams by name, all spawned from one seed, so that no stream's draws can shift another's."""

from __future__ import annotations

import hashlib

import numpy as np


def stream(seed: int, *path: str | int) -> np.random.Generator:
    """Return the generator of the stream that `path` names.

    Parameters
    ----------
    seed
        Seed of the run.
    path
        Names and numbers, such as ``"tenants", repeat``. Equal paths give equal streams, others independent ones.
    """
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=_key(path))))


def stream_seed(seed: int, *path: str | int) -> int:
    """Return a seed of 63 bits from the stream that `path` names, for programs that want one number."""
    state = np.random.SeedSequence(seed, spawn_key=_key(path)).generate_state(1, np.uint64)
    return int(state[0] >> np.uint64(1))


def _key(path: tuple[str | int, ...]) -> tuple[int, ...]:
    """Return one 32-bit number a part; the hash does not depend on the process, as Python's own would."""
    return tuple(int.from_bytes(hashlib.sha256(repr(part).encode()).digest()[:4], "big") for part in path)
