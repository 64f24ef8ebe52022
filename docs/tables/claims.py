"""Claims of the papers, and the verdicts on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple


class Verdict(StrEnum):
    """What became of a claim."""

    REPRODUCED = "reproduced"
    PARTLY = "partly"
    NOT_REPRODUCED = "not reproduced"
    REVERSED = "reversed"
    NOT_TRIED = "not tried"


class Claim(NamedTuple):
    """A claim of a paper that can be checked."""

    place: str
    """Paper, and section or figure."""
    claim: str
    reported: str
    """Figure of the paper; "" without one."""
    found: str
    """Figure here with its interval, or a link to the table that has it."""
    repeats: str
    """Repeats or instances behind the figure."""
    verdict: Verdict
    cause: str
    """What may explain a difference, in a clause; "" where there is none."""


def verdict_on(ratio: Mapping[str, Any], reported: float) -> Verdict:
    """Return the verdict on a ratio that the paper has above 1, from the interval of the ratio here.

    Without an interval nothing is reproduced.
    """
    if ratio["low"] is None:
        return Verdict.NOT_REPRODUCED
    if ratio["low"] <= 1.0:
        return Verdict.REVERSED if ratio["high"] < 1.0 else Verdict.NOT_REPRODUCED
    return Verdict.REPRODUCED if ratio["high"] >= reported else Verdict.PARTLY


def verdict_on_cases(holds: Sequence[bool]) -> Verdict:
    """Return the verdict on a claim that holds in some of the cases that were tried, without intervals."""
    if all(holds):
        return Verdict.REPRODUCED
    return Verdict.PARTLY if any(holds) else Verdict.NOT_REPRODUCED
