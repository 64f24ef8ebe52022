"""The search for the lowest place that suffices: steps that double until both answers occurred, then bisection.

Places are whole numbers, and higher ones are easier. If all places above one that suffices suffice too, the result is
the lowest of them. Answers from simulations are random, so that a higher place may not suffice. The result is then
still a place that suffices, and the next lower one was tried and does not.
"""

from __future__ import annotations

from collections.abc import Generator

Search = Generator[int, bool, int | None]
"""Yields the next place to try, receives whether it suffices, and returns the result."""


def least_sufficient(start: int, lowest: int, highest: int, first_step: int = 1) -> Search:
    """Search for the lowest place that suffices.

    Parameters
    ----------
    start
        The first place to try.
    lowest, highest
        Range of the places, with both ends.
    first_step
        Distance from the start to the second place. It doubles with each step until both answers occurred.

    Returns
    -------
    int or None
        A place that suffices, and is either the lowest or next to one that does not. None: the highest does not
        suffice.
    """
    sufficient, failing = highest + 1, lowest - 1
    if (yield start):
        sufficient = start
    else:
        failing = start
    step = first_step
    while lowest <= failing < highest < sufficient:
        place = min(failing + step, highest)
        if (yield place):
            sufficient = place
        else:
            failing = place
        step *= 2
    while failing < lowest < sufficient <= highest:
        place = max(sufficient - step, lowest)
        if (yield place):
            sufficient = place
        else:
            failing = place
        step *= 2
    while sufficient - failing > 1:
        place = (sufficient + failing) // 2
        if (yield place):
            sufficient = place
        else:
            failing = place
    return sufficient if sufficient <= highest else None
