"""Counts of the rows, steps and tenants of a public trace while it is converted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import attrs

from plb.array_types import Bool, Int


@attrs.define(kw_only=True)
class ConversionReport:
    """The counts of a conversion; complete when it is done.

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

    rows_read: int = 0
    rows_refused: Counter[str] = attrs.field(factory=Counter)
    rows_kept: int = 0
    owners: int = 0
    step_seconds: float
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

    def read(self, rows: int) -> None:
        """Add rows of the source, which are kept until they are refused."""
        self.rows_read += rows
        self.rows_kept += rows

    def refuse(self, reasons: Mapping[str, int]) -> None:
        """Add refused rows by reason; a reason that is named with 0 rows is reported with 0."""
        for reason, rows in reasons.items():
            self.rows_refused[reason] += rows
            self.rows_kept -= rows

    def cut(self, lengths: Int, kept: Bool) -> None:
        """Add tenants with the steps of each; those that are not `kept` are refused as too short."""
        self.tenants += int(kept.sum())
        self.tenants_refused += int((~kept).sum())
        self.steps_refused += int(lengths[~kept].sum())
        self.steps_kept += int(lengths[kept].sum())

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


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in counts.items()) or "none"
