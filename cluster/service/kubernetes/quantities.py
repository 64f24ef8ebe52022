"""Quantities of Kubernetes, such as ``500m`` and ``512Mi``, as exact numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction

from plb.errors import InvalidValueError

SUFFIXES: Mapping[str, Fraction] = {
    "": Fraction(1),
    **{suffix: Fraction(1000) ** power for power, suffix in enumerate("num", -3)},
    **{suffix: Fraction(1000) ** power for power, suffix in enumerate("kMGTPE", 1)},
    **{f"{suffix}i": Fraction(1024) ** power for power, suffix in enumerate("KMGTPE", 1)},
}
"""What each suffix stands for."""
PATTERN = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:[eE]([+-]?\d{1,2})|([numkMGTPE]|[KMGTPE]i)?)", re.ASCII)
LONGEST = 100
"""Most letters of a quantity."""
ALLOWED = 'a quantity of Kubernetes, such as "500m", "512Mi" or "1e3"'


def exactly(quantity: object, item: str, field: str) -> Fraction:
    """Return the number that a quantity stands for; `item` and `field` name it in errors (`InvalidValueError`)."""
    text = quantity if isinstance(quantity, str) else repr(quantity)
    match = PATTERN.fullmatch(text) if len(text) <= LONGEST else None
    if match is None:
        raise InvalidValueError(item, field, quantity, ALLOWED)
    digits, exponent, suffix = match.groups()
    scale = SUFFIXES[suffix or ""] if exponent is None else Fraction(10) ** int(exponent)
    return Fraction(digits) * scale
