"""Counter-based randomness: 64-bit words that are a pure function of (seed, replica key, repetition, counter).

There is no state, so a sample does not depend on other samples, on their order or on the machine.
The mixing function is the finaliser of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014), a bijection of 64-bit words.
Sums and products wrap at 2^64 by intent; where kernels run as plain Python, callers silence NumPy's overflow warning.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np

from plb.array_types import UInt64
from plb.compiler import kernel
from plb.validation import check_count, check_name

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
FIRST_FACTOR = np.uint64(0xBF58476D1CE4E5B9)
SECOND_FACTOR = np.uint64(0x94D049BB133111EB)
ROW_SALT = np.uint64(0xD6E8FEB86659FD93)
DIP_SALT = np.uint64(0xA0761D6478BD642F)
SHIFT_11 = np.uint64(11)
UNIT = 2.0**-53
SHIFT_27, SHIFT_30, SHIFT_31, SHIFT_32 = np.uint64(27), np.uint64(30), np.uint64(31), np.uint64(32)


def seed_word(seed: int) -> np.uint64:
    """Return a seed of any size as 64 bits: the seed itself, or a hash of a larger one."""
    return np.uint64(seed) if seed < 2**64 else np.random.SeedSequence(seed).generate_state(1, np.uint64)[0]


def replica_key(partition_name: str, slot: int) -> int:
    """Return a stable 64-bit key of a partition's role slot: the same on every machine and in every process.

    Parameters
    ----------
    partition_name
        Name of the partition.
    slot
        Number of the role slot in the partition, at least 0. It survives moves; a promotion takes another slot.
    """
    check_name("partition", partition_name)
    slot = check_count(f"partition {partition_name}", "slot", slot)
    return int.from_bytes(_digest(slot, partition_name.encode()), "little")


def replica_keys(partition_names: Iterable[str], slots: Iterable[int]) -> UInt64:
    """Return the keys of the first slots of the partitions of these names, partition by partition.

    `slots`: how many of each.
    """
    names = (name.encode() for name in partition_names)
    counts = zip(names, slots, strict=True)
    return np.frombuffer(b"".join([_digest(slot, name) for name, count in counts for slot in range(count)]), "<u8")


def _digest(slot: int, partition_name: bytes) -> bytes:
    """Return the eight bytes of the key of a slot."""
    return hashlib.blake2b(b"%d/%b" % (slot, partition_name), digest_size=8).digest()


@kernel
def mixed(word: np.uint64) -> np.uint64:
    """Return `word` with its bits mixed, by a bijection of 64-bit words."""
    word = (word ^ (word >> SHIFT_30)) * FIRST_FACTOR
    word = (word ^ (word >> SHIFT_27)) * SECOND_FACTOR
    return word ^ (word >> SHIFT_31)


@kernel
def replica_stream(seed: np.uint64, key: np.uint64) -> np.uint64:
    """Return the word from which all samples of the replica with a key derive."""
    return mixed(mixed(seed + GOLDEN) ^ key)


@kernel
def word_of_draw(stream: np.uint64, draw: int) -> np.uint64:
    """Return word number `draw` of a stream: a sample, or the stream of repetition `draw` of a replica's stream."""
    return mixed(stream + np.uint64(draw + 1) * GOLDEN)


@kernel
def uniform_index(stream: np.uint64, draw: int, size: int) -> int:
    """Return sample number `draw` of a repetition's stream: an index in [0, size), uniform up to a share of size/2^32.

    The high word of a product, not a remainder: one multiplication and no bias towards small indices.
    """
    word = word_of_draw(stream, draw)
    return int(((word >> SHIFT_32) * np.uint64(size)) >> SHIFT_32)


@kernel
def row_stream(stream: np.uint64) -> np.uint64:
    """Return the stream of the hashes of rows for a repetition's `stream`, separate from its samples."""
    return mixed(stream ^ ROW_SALT)


@kernel
def row_hash(stream: np.uint64, row: int) -> np.uint64:
    """Return the hash of a row of the history, with the `stream` of `row_stream`; different rows never share one."""
    return mixed(stream + np.uint64(row) * GOLDEN)


@kernel
def dip_stream(stream: np.uint64) -> np.uint64:
    """Return the stream of the shares of dips that have ended for a repetition's `stream`, separate from all others."""
    return mixed(stream ^ DIP_SALT)


@kernel
def fraction(word: np.uint64) -> float:
    """Return a number in [0, 1) that rises with the word, from its first 53 bits."""
    return float(word >> SHIFT_11) * UNIT
