"""What a reader of a public trace is: a name, its files and metrics, and tenants that it yields some at a time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal, Protocol

import attrs
import polars as pl

from plb.array_types import Int
from plb.errors import InvalidValueError
from plb.validation import check_count, check_number
from workloads.column_checks import LARGEST
from workloads.readers.external_sort import first_reason
from workloads.readers.report import ConversionReport
from workloads.trace import MetricInfo, TraceSet

MEAN_OR_MAX = ("mean", "max")
LONGEST_DAYS = 1e6
"""The longest life of a tenant: some 2,700 years."""
MOST_ROWS = 10**12
"""The largest number of rows in memory."""


@attrs.frozen(kw_only=True)
class Options:
    """How a public trace is converted.

    Parameters
    ----------
    window_days
        Longest life of a tenant; longer series are cut into windows. None: the reader's default.
    aggregate
        How the values within one step are combined.
    max_gap_minutes
        Longest gap that is filled with the last value; a longer one cuts the series in two.
    min_hours
        Shortest series that becomes a tenant. None: the reader's default.
    rows_in_memory
        Rows in memory; a larger trace is sorted in files in the output directory.
    """

    window_days: float | None = None
    aggregate: Literal["mean", "max"] = "mean"
    max_gap_minutes: float = 60.0
    min_hours: float | None = None
    rows_in_memory: int = 4_000_000

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
    """Some of a trace's tenants.

    Parameters
    ----------
    traces
        The tenants.
    start_seconds
        int64 (T,): when each began, seconds since the trace's origin.
    """

    traces: TraceSet
    start_seconds: Int


class Reader(Protocol):
    """A reader of one public format; readers hold no state."""

    @property
    def name(self) -> str:
        """Name of the format on the command line."""

    @property
    def files(self) -> str:
        """The files that it expects."""

    @property
    def metrics(self) -> tuple[MetricInfo, ...]:
        """Names, units and trends of the metrics that it yields."""

    @property
    def step_seconds(self) -> float:
        """Sampling interval of what it yields, seconds."""

    @property
    def origin(self) -> str:
        """What second 0 of the trace is."""

    @property
    def request(self) -> str:
        """What MaxUsage is in this format."""

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
