"""Hypothesis strategies for small episodes, and short constructors of jobs."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from cluster.learning.episode import Dimensions, Penalties
from cluster.learning.jobs import Job, JobSequence

RESOURCES = ("cpu", "memory", "disk")
levels = st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0, 1.5]) | st.floats(0.0, 1.2)
weights = st.sampled_from([0.0, 0.25, 1.0, 4.0])


def job(arrival: int, *cpu: float) -> Job:
    """Return a job with this CPU usage per step and no other usage."""
    return Job(arrival, np.array(cpu)[:, None])


def jobs(*given: Job, name: str = "jobs") -> JobSequence:
    return JobSequence(given, name)


def one_resource(machines: int, **sizes: Any) -> Dimensions:
    return Dimensions(machines=machines, resources=("cpu",), **({"horizon": 4} | sizes))


@st.composite
def dimensions(draw: st.DrawFn) -> Dimensions:
    """Return small dimensions. Optional parts are often 0."""
    return Dimensions(
        machines=draw(st.integers(1, 3)),
        resources=RESOURCES[: draw(st.integers(1, 3))],
        horizon=draw(st.integers(1, 5)),
        past=draw(st.integers(0, 3)),
        visible=draw(st.integers(1, 3)),
        arrivals=draw(st.integers(1, 4)),
    )


@st.composite
def sequences(draw: st.DrawFn, sizes: Dimensions, most_jobs: int = 7) -> JobSequence:
    """Return sequences with simultaneous arrivals and with gaps."""
    arrivals = sorted(draw(st.lists(st.integers(0, 9), min_size=1, max_size=most_jobs)))
    return JobSequence([Job(arrival, draw(_curves(sizes))) for arrival in arrivals], "drawn")


@st.composite
def _curves(draw: st.DrawFn, sizes: Dimensions) -> list[list[float]]:
    steps = draw(st.integers(1, sizes.horizon))
    count = len(sizes.resources)
    return draw(st.lists(st.lists(levels, min_size=count, max_size=count), min_size=steps, max_size=steps))


penalties = st.builds(Penalties, contention=weights, over_use=weights, wait=weights, under_use=weights)
