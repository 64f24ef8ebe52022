"""Numbers and times as people write them: decimal commas, ISO times with zones, seconds or milliseconds since 1970.

The form of a column is told from its first rows; later fields of another form are errors with their row.
"""

from __future__ import annotations

from typing import Any

import attrs
import polars as pl

from workloads.column_checks import LATEST, TIMES, Checker
from workloads.readers.external_sort import ROW

ABSENT = ("", "-", "na", "n/a", "nan", "null", "none", "nil", "\\n")
"""Texts for no value, in lower case."""
GROUPS = {".": r"^[+-]?[1-9]\d{0,2}(?:,\d{3})+(?:\.\d*)?$", ",": r"^[+-]?[1-9]\d{0,2}(?:\.\d{3})+(?:,\d*)?$"}
"""Numbers with separated thousands, by their decimal mark."""
COMMA, POINT = r"^[+-]?[\d.]*,\d+(?:[eE][+-]?\d+)?$", r"^[+-]?[\d,]*\.\d+(?:[eE][+-]?\d+)?$"
"""Numbers that may be written with a decimal comma or point."""
DAYS = ("%Y-%m-%d", "%Y/%m/%d", "%d.%m.%Y", "%Y.%m.%d")
CLOCKS = (" %H:%M:%S%.f", "T%H:%M:%S%.f", " %H:%M", "T%H:%M", "")
ZONES = ("", "%#z", " UTC")
"""Parts of the formats of times that are told from a table."""
FORMATS = [day + clock + zone for clock in CLOCKS for day in DAYS for zone in (ZONES if clock else ("",))]
NUMBER_UNITS = {1.0: "seconds", 1e-3: "milliseconds", 1e-6: "microseconds", 1e-9: "nanoseconds"}
"""Units of times that are told from a table, in seconds."""
EARLIEST_DATE, LATEST_DATE = 631_152_000.0, 2_208_988_800.0
"""1990 and 2040: numbers that are moments between these in one of the units count from 1970."""


@attrs.frozen
class NumberForm:
    """How a table writes numbers."""

    decimal: str
    """The decimal mark."""

    def parsed(self, check: Checker, chunk: pl.DataFrame, name: str) -> pl.Series:
        """Return a column as 64-bit floats, null where there is no value, and record fields that are no numbers."""
        values = chunk[name]
        if values.dtype.is_numeric() or values.dtype == pl.Null:
            return values.cast(pl.Float64)
        if values.dtype != pl.String:
            check.add(f"type {values.dtype}", "a column of numbers", column=name)
            return pl.Series(name, [None] * len(values), pl.Float64)
        text = _present(values).str.strip_suffix("%").str.strip_chars()
        grouped = text.str.contains(GROUPS[self.decimal]).fill_null(value=False)
        text = text.zip_with(~grouped, text.str.replace_all("," if self.decimal == "." else ".", "", literal=True))
        plain = text.str.replace(",", ".", literal=True) if self.decimal == "," else text
        numbers = plain.cast(pl.Float64, strict=False)
        wrong = (numbers.is_null() & text.is_not_null()).to_numpy()
        example = "0,25 (decimal ',')" if self.decimal == "," else "0.25 (decimal '.')"
        check.bad_rows(wrong, name, values, f"a number such as {example}, without a unit", chunk[ROW])
        return numbers


def number_form(check: Checker, chunk: pl.DataFrame, names: list[str], decimal: str | None) -> NumberForm:
    """Return how the columns of some rows write numbers; `decimal` is the mark if it is known.

    Raise `TraceError` for a comma that may be a decimal mark or separate thousands.
    """
    if decimal is not None:
        return NumberForm(decimal)
    for name in names:
        if chunk[name].dtype != pl.String:
            continue
        text = _present(chunk[name])
        comma, point, with_point_and_groups = (
            text.str.contains(pattern).fill_null(value=False) for pattern in (COMMA, POINT, GROUPS["."])
        )
        if (point & (with_point_and_groups | ~comma)).any():
            return NumberForm(".")
        if (comma & ~with_point_and_groups).any():
            return NumberForm(",")
        if comma.any():
            row = chunk.filter(comma).row(0, named=True)
            expected = "a known decimal mark: give the option decimal, ',' or '.'"
            check.refuse(f"{row[name]!r}, whose comma may separate thousands", expected, row[ROW], name)
    return NumberForm(".")


def _present(values: pl.Series) -> pl.Series:
    """Return texts without blanks around them, null for a text that stands for no value."""
    text = values.str.strip_chars()
    return text.set(text.str.to_lowercase().is_in(list(ABSENT)).fill_null(value=False), None)


@attrs.frozen(kw_only=True)
class TimeForm:
    """How a table writes times."""

    words: str
    """The form in words."""
    zone: str
    """Time zone of times without one."""
    is_date: bool
    """Whether times are moments of a calendar, and seconds count from 1970."""
    format: str | None = None
    """Format of texts; None: numbers, or columns of times."""
    unit: float = 1.0
    """Unit of numbers, seconds."""
    numbers: NumberForm = NumberForm(".")
    """How numbers are written."""

    def parsed(self, check: Checker, chunk: pl.DataFrame, name: str) -> pl.Series:
        """Return a column in whole seconds, and record fields that are no times; an empty field is null."""
        values = chunk[name]
        if self.format is not None and values.dtype == pl.String:
            text = _present(values)
            times = text.str.strptime(pl.Datetime("us"), self.format, strict=False)
            seconds = _seconds(times, self.zone)
            wrong = (times.is_null() & text.is_not_null()).to_numpy()
            check.bad_rows(wrong, name, values, f"a time as {self.words}", chunk[ROW])
            skipped = (seconds.is_null() & times.is_not_null()).to_numpy()
            expected = f"a time that {self.zone} has: its clocks skip this hour; another timezone has it, such as UTC"
            check.bad_rows(skipped, name, values, expected, chunk[ROW])
            return seconds
        if isinstance(values.dtype, pl.Datetime | pl.Date):
            return _seconds(values.cast(pl.Datetime("us")) if values.dtype == pl.Date else values, self.zone)
        numbers = self.numbers.parsed(check, chunk, name)
        seconds = (numbers * self.unit).floor()
        outside = (~seconds.is_between(-LATEST, LATEST)).fill_null(value=False).to_numpy()
        check.bad_rows(outside, name, values, f"{self.words}; {TIMES}", chunk[ROW])
        return seconds.cast(pl.Int64, strict=False)


def _seconds(times: pl.Series, zone: str) -> pl.Series:
    """Return moments as seconds since 1970, null for a moment that a change of the clock leaves out.

    If an hour occurs twice, a moment in it belongs to the first.
    """
    if getattr(times.dtype, "time_zone", None) is None:
        times = times.dt.replace_time_zone(zone, ambiguous="earliest", non_existent="null")
    return times.dt.epoch("us") // 1_000_000


def time_form(
    check: Checker, chunk: pl.DataFrame, name: str, zone: str, *, text_format: str | None, unit: float | None
) -> TimeForm:
    """Return how a column of some rows writes times; raise `TraceError` if none of the known forms fits.

    `zone`: timezone of times without one. `text_format`, for texts, and `unit`, in seconds, for numbers, come from the
    user; None: unknown.
    """
    values = chunk[name]
    if isinstance(values.dtype, pl.Datetime | pl.Date):
        own = getattr(values.dtype, "time_zone", None)
        return TimeForm(words=f"times, {own or zone}", zone=zone, is_date=True)
    if text_format is not None:
        return TimeForm(words=_format_words(text_format, zone), zone=zone, is_date=True, format=text_format)
    numbers = _numbers(check, chunk, name)
    if numbers is not None:
        return _number_time_form(numbers, zone, unit)
    text = _present(values)
    for candidate in FORMATS:
        parsed = text.str.strptime(pl.Datetime("us"), candidate, strict=False)
        if parsed.null_count() == text.null_count():
            return TimeForm(words=_format_words(candidate, zone), zone=zone, is_date=True, format=candidate)
    return _refuse_times(check, chunk, name, text, zone)


def _refuse_times(check: Checker, chunk: pl.DataFrame, name: str, text: pl.Series, zone: str) -> TimeForm:
    """Return the form of most of `text`, the values of column `name`; raise `TraceError` if it is none of the known."""
    counts = {format_: text.str.strptime(pl.Datetime("us"), format_, strict=False).count() for format_ in FORMATS}
    best = max(counts, key=counts.__getitem__)
    if counts[best] > text.count() / 2:
        return TimeForm(words=_format_words(best, zone), zone=zone, is_date=True, format=best)
    row = chunk.filter(text.is_not_null()).row(0, named=True)
    expected = "a number, a time such as 2024-03-01T00:05:00+01:00, or the option time_format, such as %d/%m/%Y %H:%M"
    check.refuse(repr(row[name]), expected, row[ROW], name)


def _numbers(check: Checker, chunk: pl.DataFrame, name: str) -> pl.Series | None:
    """Return a column as numbers, null where a text is none; None if most texts are no numbers, as dates are."""
    values = chunk[name]
    if values.dtype.is_numeric():
        return values.cast(pl.Float64)
    if values.dtype not in (pl.String, pl.Null):
        check.refuse(f"type {values.dtype}", "a column of times or numbers", column=name)
    text = _present(values.cast(pl.String))
    if not text.count():
        check.refuse("no time", "times or numbers", column=name)
    numbers = text.str.replace(",", ".", literal=True).cast(pl.Float64, strict=False)
    return numbers if numbers.count() > text.count() / 2 else None


def _number_time_form(numbers: pl.Series, zone: str, unit: float | None) -> TimeForm:
    """Return the form of numbers: times since 1970 if they are dates of our days, or from a start; `unit`: seconds."""
    finite = numbers.filter(numbers.is_finite())
    low, high = (finite.min(), finite.max()) if finite.count() else (0.0, 0.0)
    units = NUMBER_UNITS if unit is None else [unit]
    for seconds in units:
        if low * seconds >= EARLIEST_DATE and high * seconds <= LATEST_DATE:  # type: ignore[operator]
            return TimeForm(words=f"{_unit_words(seconds)} since 1970", zone=zone, is_date=True, unit=seconds)
    seconds = 1.0 if unit is None else unit
    hint = "" if unit is not None else "; for another unit, the option time_unit"
    return TimeForm(words=f"{_unit_words(seconds)} from a start{hint}", zone=zone, is_date=False, unit=seconds)


def _unit_words(seconds: float) -> str:
    """Return the unit of numbers in words."""
    return NUMBER_UNITS.get(seconds, f"steps of {seconds:g} s")


def _format_words(text: str, zone: str) -> str:
    """Return a format of times in words."""
    plain: Any = text.replace("%#z", "%z").replace("%.f", "")
    return plain if "z" in plain or "UTC" in plain else f"{plain}, {zone}"
