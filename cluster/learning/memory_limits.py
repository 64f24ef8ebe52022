"""Limits of the memory of an episode: how many jobs and steps fit for each number of machines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs

from cluster.learning.dimensions import MOST_CELLS, Dimensions
from cluster.learning.episode import HORIZONS
from cluster.learning.job_sources import Jobs, expected_steps, scaled
from plb import InvalidValueError, PlbError


def out_of_range(
    sizes: Dimensions, evaluated: Sequence[int], jobs: Jobs, bootstrap: Jobs | None
) -> Iterator[tuple[str, PlbError]]:
    """Yield the sections with which episodes would need too much memory, or jobs would have an invalid rate.

    Parameters
    ----------
    evaluated
        Further numbers of machines, for the evaluation.
    """
    for place, some, counts in (("jobs", jobs, evaluated), ("bootstrap", bootstrap, ())):
        if some is None:
            continue
        for machines in (sizes.machines, *counts):
            try:
                scaled(some, machines / sizes.machines)
            except InvalidValueError as error:
                allowed = f"a number with which {error.field} of the jobs, {error.value:g}, is {error.allowed}"
                yield "evaluation", InvalidValueError("evaluation", "machines", machines, allowed)
                continue
            most_jobs, most_steps = _most_jobs_and_steps(attrs.evolve(sizes, machines=machines))
            if most_steps < 1:
                allowed = f"fewer, with {machines} machines and {len(sizes.resources)} resources"
                yield "machines", InvalidValueError("machines", "horizon", sizes.horizon, allowed)
                continue
            of_one = int(most_jobs * sizes.machines / machines)
            on = f"with {machines} machines, {len(sizes.resources)} resources and a horizon of {sizes.horizon} steps"
            if some.jobs > of_one:
                yield place, InvalidValueError(place, "jobs", some.jobs, f"a whole number <= {of_one}, {on}")
            if expected_steps(some) > most_steps:
                yield place, InvalidValueError(place, "jobs / rate", expected_steps(some), f"<= {most_steps}, {on}")


def _most_jobs_and_steps(sizes: Dimensions) -> tuple[int, int]:
    """Return the largest number of jobs of an episode, and the largest number of steps until the last arrival."""
    wide = len(sizes.resources)
    steps = MOST_CELLS // (wide * sizes.machines) - (HORIZONS + 1) * sizes.horizon - sizes.past
    return MOST_CELLS // (wide * sizes.horizon), steps
