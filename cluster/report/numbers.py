"""How a report writes times and amounts."""

from __future__ import annotations

import math


def moment(seconds: float) -> str:
    """Return a time since the start as days, hours, minutes and seconds."""
    whole = math.floor(seconds)
    days, rest = divmod(whole, 86400)
    return f"{days} d {rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"


def amount(value: float | None) -> str:
    """Return a number with six significant digits; a dash for none."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1e5 else f"{value:,.6g}"


def count(value: float) -> str:
    """Return a count, or the mean of counts with a digit behind the point where it is not whole."""
    return f"{value:,.{0 if float(value).is_integer() else 1}f}"


def share(value: float | None) -> str:
    """Return a share near 1, such as an availability, in percent; a dash for none."""
    return "-" if value is None else "100%" if value == 1.0 else f"{value:.5%}"
