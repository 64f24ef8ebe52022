"""What became of the rows of a public trace: counted while it is converted, reported when it is done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import attrs


@attrs.frozen(kw_only=True)
class ConversionReport:
    """The closing count of a conversion.

    Parameters
    ----------
    rows_read
        Rows of the source.
    rows_refused
        Refused rows by reason; a row counts for the first reason.
    rows_kept
        The used rows: ``rows_read - sum(rows_refused.values())``.
    owners
        Machines, instances or containers with at least one row that was kept.
    step_seconds
        Sampling interval of the converted trace, seconds.
    steps
        Steps with at least one row.
    steps_filled, gaps_filled
        Steps that were missing in short gaps and repeat the last value, and the gaps that they fill.
    gaps_cut
        Longer gaps, each of which cut a series in two.
    tenants
        Tenants that were made of the series.
    tenants_refused, steps_refused
        Tenants that were too short, and the steps (filled ones included) in them.
    steps_kept
        Steps of the tenants: ``steps + steps_filled - steps_refused``.
    clipped
        Kept values above MaxUsage that were clipped to it, by metric.
    over_request
        Kept values above the request, by metric, if the source allows them; MaxUsage was raised to them.
    """

    rows_read: int
    rows_refused: Mapping[str, int]
    rows_kept: int
    owners: int
    step_seconds: float
    steps: int
    steps_filled: int
    gaps_filled: int
    gaps_cut: int
    tenants: int
    tenants_refused: int
    steps_refused: int
    steps_kept: int
    clipped: Mapping[str, int]
    over_request: Mapping[str, int]

    def __str__(self) -> str:
        lines = [
            f"{self.rows_read:,} rows read, {self.rows_kept:,} kept; refused: {_listed(self.rows_refused)}",
            f"{self.steps:,} steps of {self.step_seconds:g} s of {self.owners:,} owners, {self.steps_filled:,} more "
            f"filled in {self.gaps_filled:,} gaps; {self.gaps_cut:,} longer gaps cut the series",
            f"{self.tenants:,} tenants with {self.steps_kept:,} steps kept; {self.tenants_refused:,} with "
            f"{self.steps_refused:,} steps refused as too short",
        ]
        if self.clipped:
            lines.append(f"values clipped to MaxUsage: {_listed(self.clipped)}")
        if self.over_request:
            lines.append(f"values above the request, which raised MaxUsage: {_listed(self.over_request)}")
        return "\n".join(lines)


@attrs.define(kw_only=True)
class Tally:
    """The counts of a conversion under way; the fields are those of `ConversionReport`."""

    step_seconds: float
    rows_read: int = 0
    rows_refused: Counter[str] = attrs.field(factory=Counter)
    owners: int = 0
    steps: int = 0
    steps_filled: int = 0
    gaps_filled: int = 0
    gaps_cut: int = 0
    tenants: int = 0
    tenants_refused: int = 0
    steps_refused: int = 0
    steps_kept: int = 0
    clipped: Counter[str] = attrs.field(factory=Counter)
    over_request: Counter[str] = attrs.field(factory=Counter)

    def refuse(self, reasons: Mapping[str, int]) -> None:
        """Add refused rows; a reason that is named with 0 rows is reported with 0."""
        for reason, rows in reasons.items():
            self.rows_refused[reason] += rows

    def report(self) -> ConversionReport:
        """Return the closing count."""
        values = attrs.asdict(self, recurse=False)
        counters = {name: dict(value) for name, value in values.items() if isinstance(value, Counter)}
        return ConversionReport(rows_kept=self.rows_read - self.rows_refused.total(), **values | counters)


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in counts.items()) or "none"
