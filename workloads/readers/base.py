"""What a reader of a public trace is: a name, its files and metrics, and tenants that it yields some at a time."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, Protocol

import attrs
import numpy as np
import polars as pl

from plb.array_types import Int
from plb.errors import InvalidValueError
from plb.validation import check_count, check_number
from workloads.column_checks import LARGEST
from workloads.readers.external_sort import OWNER, ConversionReport, first_reason
from workloads.trace import MetricInfo, TraceSet

MEAN_OR_MAX = ("mean", "max")
"""The values of `Options.aggregate`."""
LONGEST_DAYS = 1e6
"""Largest value of `Options.window_days`: some 2,700 years."""
MOST_ROWS = 10**12
"""Largest value of `Options.rows_in_memory`."""


@attrs.frozen(kw_only=True)
class Options:
    """How a public trace is converted."""

    window_days: float | None = None
    """Longest life of a tenant; longer series are cut into windows. None: the reader's default."""
    aggregate: Literal["mean", "max"] = "mean"
    """How the values within one step are combined."""
    max_gap_minutes: float = 60.0
    """Longest gap that is filled with the last value; a longer one cuts the series in two."""
    min_hours: float | None = None
    """Shortest series that becomes a tenant. None: the reader's default."""
    rows_in_memory: int = 4_000_000
    """Largest number of rows that are held in memory; a larger trace is sorted in files in the output directory."""

    def __attrs_post_init__(self) -> None:
        if self.window_days is not None:
            check_number("conversion", "window_days", self.window_days, low=1 / 24, high=LONGEST_DAYS)
        if self.min_hours is not None:
            check_number("conversion", "min_hours", self.min_hours)
        check_number("conversion", "max_gap_minutes", self.max_gap_minutes)
        check_count("conversion", "rows_in_memory", self.rows_in_memory, low=1000, high=MOST_ROWS)
        if self.aggregate not in MEAN_OR_MAX:
            raise InvalidValueError("conversion", "aggregate", self.aggregate, "'mean' or 'max'")


@attrs.frozen(eq=False)
class TracePart:
    """Some of a trace's tenants."""

    traces: TraceSet
    """The tenants."""
    start_seconds: Int
    """int64 (T,): start of each tenant, seconds since the trace's origin."""


class Reader(Protocol):
    """A reader of one public format; readers hold no state."""

    @property
    def name(self) -> str:
        """Name of the format on the command line."""

    @property
    def files(self) -> str:
        """The files that it expects, in words."""

    @property
    def metrics(self) -> tuple[MetricInfo, ...]:
        """Names, units and trends of the metrics that it yields."""

    @property
    def step_seconds(self) -> float:
        """Sampling interval of the tenants that it yields, in seconds."""

    @property
    def origin(self) -> str:
        """The moment that is second 0 of the trace, in words."""

    @property
    def request(self) -> str:
        """The source of a tenant's MaxUsage (`TraceSet.max_usage`) in this format, in words."""

    def parts(self, source: Path, options: Options, tally: ConversionReport, scratch: Path) -> Iterator[TracePart]:
        """Yield all tenants, some at a time, and count on the way.

        Parameters
        ----------
        source
            File or directory of the public trace.
        options
            How to convert it.
        tally
            Takes the counts; complete when the last part was taken.
        scratch
            An empty directory for intermediate files, which the caller removes.

        Raises
        ------
        TraceError
            A file is missing or damaged, or a row cannot be read or belongs to nobody; it names file, row and column.
        """


MISSING = "with a missing or infinite value"
NEGATIVE = "with a negative value"
"""Reasons to refuse a row that all readers have."""


def measured(values: dict[str, pl.Expr], others: dict[str, pl.Expr] | None = None) -> list[pl.Expr]:
    """Return metrics as columns of 64-bit floats, and ``refused``, the reason to refuse a row, else null.

    `values` are by metric; `others` are further reasons, each with whether it applies. They are checked after missing
    or infinite values and before negative values.
    """
    numbers = {name: value.cast(pl.Float64) for name, value in values.items()}
    finite = pl.all_horizontal(value.abs() <= LARGEST for value in numbers.values()).fill_null(value=False)
    negative = pl.any_horizontal(value < 0 for value in numbers.values())
    reasons = {MISSING: ~finite} | (others or {}) | {NEGATIVE: negative}
    return [*(value.alias(name) for name, value in numbers.items()), first_reason(reasons)]


Classes = Callable[[pl.DataFrame], pl.DataFrame]
"""Function of the steps of owners (columns ``owner``, ``step``, the metrics and their limits) that returns a row for
each owner: ``owner`` and ``tenant_class``.
"""


def family_numbers(families: list[Any]) -> Int:
    """Return families as whole numbers: numbers unchanged, names by a hash that is the same on all machines."""
    numbers = {family: family for family in set(families) if isinstance(family, int)}
    for name in set(families) - set(numbers):
        numbers[name] = int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "big") >> 2
    return np.array([numbers[family] for family in families], np.int64)


def sized_classes(prefix: str, sizes: dict[str, pl.Expr]) -> Classes:
    """Return the function for classes ``<prefix>_<letter><size>...`` by sizes of owners, rounded up to powers of two.

    `sizes` has, for each letter, the size of an owner as an aggregate over its steps; unknown sizes are left out.
    """

    def classes(steps: pl.DataFrame) -> pl.DataFrame:
        """Return owners and their classes."""
        usual = steps.group_by(OWNER).agg(size.alias(letter) for letter, size in sizes.items())
        # the logarithm of a power of two may be slightly too large
        power = [pl.lit(2.0).pow(pl.col(letter).log(2).round(9).ceil()).alias(letter) for letter in sizes]
        rounded = usual.with_columns(power).select(*sizes).iter_rows()
        names = ["_".join([prefix, *_size_names(dict(zip(sizes, row, strict=True)))]) for row in rounded]
        return usual.select(OWNER).with_columns(tenant_class=pl.Series(names, dtype=pl.String))

    return classes


def _size_names(sizes: dict[str, float | None]) -> list[str]:
    """Return the known sizes, by letter, as parts of the name of a class."""
    return [f"{letter}{size:.3g}" for letter, size in sizes.items() if size is not None and 0 < size < math.inf]


def one_class(name: str) -> Classes:
    """Return the function that puts all owners into one class."""
    return lambda steps: steps.select(pl.col(OWNER).unique(maintain_order=True)).with_columns(tenant_class=pl.lit(name))


def listed_classes(steps: pl.DataFrame) -> pl.DataFrame:
    """Return the classes in the column ``tenant_class``, which steps have from the table of owners."""
    return steps.group_by(OWNER).agg(pl.col("tenant_class").first())
