"""Measurements that cannot be used, by the reasons that most formats share."""

from __future__ import annotations

import polars as pl

from workloads.checks import LARGEST
from workloads.readers.chunks import first_reason

MISSING = "with a missing or infinite value"
NEGATIVE = "with a negative value"


def measured(values: dict[str, pl.Expr], others: dict[str, pl.Expr] | None = None) -> list[pl.Expr]:
    """Return metrics as 64-bit floats, and the column ``refused``: missing or infinite, negative, or another reason.

    Parameters
    ----------
    values
        The metrics.
    others
        Further reasons, which are tried before negative values.
    """
    numbers = {name: value.cast(pl.Float64) for name, value in values.items()}
    known = pl.all_horizontal(value.abs() <= LARGEST for value in numbers.values()).fill_null(value=False)
    negative = pl.any_horizontal(value < 0 for value in numbers.values())
    reasons = {MISSING: ~known} | (others or {}) | {NEGATIVE: negative}
    return [*(value.alias(name) for name, value in numbers.items()), first_reason(reasons)]
