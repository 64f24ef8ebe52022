"""The search for the least place on a line that suffices: doubling steps until both answers are seen, then bisection.

Places are whole numbers, the larger the easier. Where one that suffices has only such above it, the least of them is
found. Answers from simulations are noisy, and some place above one that suffices may not; then what is found is still a
place that suffices right above one that was tried and does not.
"""

from __future__ import annotations

from collections.abc import Generator

Search = Generator[int, bool, int | None]
"""Yields the place to try next, is sent whether it suffices, and returns the place that it found."""


def least_sufficient(start: int, lowest: int, highest: int, first_step: int = 1) -> Search:
    """Search for the least place that suffices.

    Parameters
    ----------
    start
        The first place to try.
    lowest, highest
        Ends of the line; both belong to it.
    first_step
        From the start to the second place; each further step is twice as long, until both answers are seen.

    Returns
    -------
    int or None
        A place that suffices, and either is the lowest or comes right after one that does not; None if the highest
        does not suffice.
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
