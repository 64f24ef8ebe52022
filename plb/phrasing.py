"""Texts for the numbers and names of an explanation."""

from __future__ import annotations

from collections.abc import Sequence

MOST_NAMED = 5
"""Number of names that a sentence lists before it counts the others."""


def amount(number: float) -> str:
    """Return a number as a text: a whole number with all digits, another one with at most six."""
    return f"{number:.0f}" if float(number).is_integer() and abs(number) < 1e15 else f"{number:g}"


def counted(count: int, noun: str) -> str:
    """Return a count with its noun, such as ``1 replica`` or ``3 replicas``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def listed(names: Sequence[str]) -> str:
    """Return names with commas between them; of more than `MOST_NAMED`, the first ones and the number of the others."""
    if len(names) <= MOST_NAMED:
        return ", ".join(names)
    return f"{', '.join(names[:MOST_NAMED])} and {len(names) - MOST_NAMED} more"


def rule_in_words(rule: str) -> str:
    """Return the name of a rule, budget or term with blanks instead of underscores."""
    return rule.replace("_", " ")
