"""Times of a run in text form: ``3d``, ``2d4h30m``, ``36h``, or seconds."""

from __future__ import annotations

import math
import re

from plb import InvalidValueError

SECONDS = {"d": 86_400, "h": 3600, "m": 60, "s": 1}
"""Seconds of each unit, the longest first."""
_WORDS = {"m": "m(?:in)?"}
"""Units that may be written in another way."""
_PARTS = re.compile("".join(rf"(?:(\d+(?:\.\d+)?)\s*{_WORDS.get(unit, unit)}\s*)?" for unit in SECONDS))
ALLOWED = "seconds, such as 345600, or days, hours, minutes and seconds, such as 4d, 2d4h30m or 36h"


def seconds_of(text: str, item: str = "time", field: str = "T") -> int:
    """Return a time, given as text, in whole seconds since the start of a run.

    Raise `InvalidValueError` if the text is neither a number of seconds nor days, hours, minutes and seconds in this
    order, or is too large; `item` and `field` are for the message.
    """
    words = text.strip().lower()
    match = _PARTS.fullmatch(f"{words}s" if re.fullmatch(r"\d+(\.\d+)?", words) else words)
    parts = zip(SECONDS, match.groups() if match else (), strict=False)
    counts = [float(count) * SECONDS[unit] for unit, count in parts if count]
    if not counts or not math.isfinite(sum(counts)):
        raise InvalidValueError(item, field, text, ALLOWED)
    return int(sum(counts))


def in_words(seconds: float) -> str:
    """Return a time in the form that `seconds_of` reads, such as ``2d4h30m``, without fractions of seconds."""
    seconds_left, parts = int(seconds), []
    for unit, length in SECONDS.items():
        count, seconds_left = divmod(seconds_left, length)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"
