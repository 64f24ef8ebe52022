"""Families and classes of the tenants of public traces."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl

from plb.array_types import Int
from workloads.readers.external_sort import OWNER

Classes = Callable[[pl.DataFrame], pl.DataFrame]
"""From steps (owner, step, metrics, limits) to ``owner`` and ``tenant_class``, one row an owner."""


def family_numbers(families: list[Any]) -> Int:
    """Return whole numbers for families: numbers unchanged, names by a hash that is the same on all machines."""
    known = {family: family for family in set(families) if isinstance(family, int)}
    for name in set(families) - set(known):
        known[name] = int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "big") >> 2
    return np.array([known[family] for family in families], np.int64)


def sized_classes(prefix: str, sizes: dict[str, pl.Expr]) -> Classes:
    """Return a rule that makes a class of the usual request of an owner, each size rounded up to a power of two.

    Parameters
    ----------
    prefix
        Prefix of the name; the whole name if no size is known.
    sizes
        The usual size of the steps of an owner, by its letter in the name.
    """

    def classes(steps: pl.DataFrame) -> pl.DataFrame:
        usual = steps.group_by(OWNER).agg(size.alias(letter) for letter, size in sizes.items())
        # the logarithm of a power of two may be slightly too large
        power = [pl.lit(2.0).pow(pl.col(letter).log(2).round(9).ceil()).alias(letter) for letter in sizes]
        rounded = usual.with_columns(power).select(*sizes).iter_rows()
        names = ["_".join([prefix, *_sizes(dict(zip(sizes, row, strict=True)))]) for row in rounded]
        return usual.select(OWNER).with_columns(tenant_class=pl.Series(names, dtype=pl.String))

    return classes


def _sizes(sizes: dict[str, float | None]) -> list[str]:
    return [f"{letter}{size:.3g}" for letter, size in sizes.items() if size is not None and 0 < size < math.inf]


def one_class(name: str) -> Classes:
    """Return a rule that puts all owners into one class."""
    return lambda steps: steps.select(pl.col(OWNER).unique(maintain_order=True)).with_columns(tenant_class=pl.lit(name))


def listed_classes(steps: pl.DataFrame) -> pl.DataFrame:
    """Return the classes that the table of owners gives."""
    return steps.group_by(OWNER).agg(pl.col("tenant_class").first())
