"""Families and classes of the tenants of public traces."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from workloads.readers.chunks import OWNER

Classes = Callable[[pl.DataFrame], pl.DataFrame]
"""From steps (owner, step, metrics, limits) to ``owner`` and ``tenant_class``, one row an owner."""


def family_numbers(families: list[Any]) -> npt.NDArray[np.int64]:
    """Return whole numbers for families: numbers as they are, names by a hash that is the same everywhere."""
    known = {
        family: family if isinstance(family, int) else int.from_bytes(_digest(family), "big") >> 2
        for family in set(families)
    }
    return np.array([known[family] for family in families], np.int64)


def _digest(family: str) -> bytes:
    return hashlib.blake2b(family.encode(), digest_size=8).digest()


def sized_classes(prefix: str, sizes: dict[str, pl.Expr]) -> Classes:
    """Return a rule that makes a class of what an owner usually asked for, each size rounded up to a power of two.

    Parameters
    ----------
    prefix
        What the name begins with.
    sizes
        By the letter that stands before it in the name: the usual size, of an owner's steps.
    """

    def classes(steps: pl.DataFrame) -> pl.DataFrame:
        usual = steps.group_by(OWNER).agg(size.alias(letter) for letter, size in sizes.items())
        known = usual.select(pl.all_horizontal(pl.col(letter) > 0 for letter in sizes).fill_null(value=False))
        rounded = (pl.lit(2.0).pow(pl.col(letter).log(2).round(9).ceil()).alias(letter) for letter in sizes)
        names = usual.with_columns(rounded).select(OWNER, *sizes)
        texts = [
            "_".join([prefix, *(f"{letter}{value:g}" for letter, value in zip(sizes, row, strict=True))])
            if good
            else prefix
            for row, good in zip(names.select(*sizes).iter_rows(), known.to_series(), strict=True)
        ]
        return names.select(OWNER, tenant_class=pl.Series(texts, dtype=pl.String))

    return classes


def one_class(name: str) -> Classes:
    """Return a rule that puts all owners into one class."""
    return lambda steps: steps.select(pl.col(OWNER).unique(maintain_order=True)).with_columns(tenant_class=pl.lit(name))
