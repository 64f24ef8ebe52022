"""Times of a run in readable form."""

from __future__ import annotations

import pytest

from cluster.scenario.times import in_words, seconds_of
from plb import InvalidValueError


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        ("345600", 345_600),
        ("4d", 345_600),
        ("2d4h30m", 189_000),
        ("36h", 129_600),
        ("1.5h", 5400),
        (" 2D 4H ", 187_200),
        ("90m", 5400),
        ("1m30s", 90),
    ],
)
def test_times_are_read_and_written(text: str, seconds: int):
    """A time is in seconds, or in days, hours, minutes and seconds in this order. A written time is read back."""
    assert seconds_of(text) == seconds
    assert seconds_of(in_words(seconds)) == seconds


@pytest.mark.parametrize(
    "text", ["", "d", "4h2d", "-3", "3 weeks", "1e5", "nan", "9" * 400, f"{'9' * 400}d", "9" * 307 + "d"]
)
def test_other_times_are_refused(text: str):
    """The message contains examples."""
    with pytest.raises(InvalidValueError, match="2d4h30m"):
        seconds_of(text)
