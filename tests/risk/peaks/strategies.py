"""Random machines and predictors for the tests of peak prediction."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from plb.risk.peaks import (
    BorgDefault,
    Form,
    HistoricalPeak,
    MachinePercentile,
    Maximum,
    NSigma,
    PeakOracle,
    Predictor,
    RcLike,
    TaskSamples,
)
from tests.engine.strategies import examples

from .reference import Sample

STEP = 300
NO_DEADLINE = examples(80)
"""The first example compiles kernels, so a deadline would measure the compiler."""
usages = st.sampled_from([0.0, 0.1, 0.25, 0.5, 1.0]) | st.floats(0.0, 3.0, allow_subnormal=False)
limits = st.sampled_from([0.0, 0.25, 0.5, 1.0]) | st.floats(1e-50, 3.0)
percentiles = st.sampled_from([0.0, 50.0, 80.0, 99.0, 100.0]) | st.floats(0.0, 100.0, allow_subnormal=False)
windows = {"warmup": st.integers(0, 6), "history": st.integers(2, 7), "cap": st.booleans()}


@st.composite
def machines(draw: st.DrawFn) -> list[Sample]:
    """Draw samples of a machine: tasks that start, end and return, empty steps, limits of 0."""
    steps = draw(st.integers(1, 25))
    there = draw(st.lists(st.integers(1, 2**4 - 1) | st.just(0) | st.just(15), min_size=steps, max_size=steps))
    if not any(there):
        there[0] = 1
    return [
        (task, STEP * step, draw(usages), draw(limits))
        for step, present in enumerate(there)
        for task in range(4)
        if present >> task & 1
    ]


cells = st.dictionaries(st.integers(0, 9), machines(), min_size=1, max_size=3)
"""Samples by machine."""


@st.composite
def historical_peaks(draw: st.DrawFn) -> HistoricalPeak:
    """Draw a predictor by windows of the past, with days that are shorter and longer than the history."""
    history = draw(st.integers(2, 14))
    return HistoricalPeak(
        percentile=draw(percentiles),
        warmup=draw(st.integers(0, 6)),
        history=history,
        horizon=draw(st.integers(1, history - 1)),
        stride=draw(st.integers(1, 3)),
        persistence=draw(st.sampled_from([0.0, 0.5, 0.8, 1.0]) | st.floats(0.0, 1.0, allow_subnormal=False)),
        day=draw(st.integers(1, 16)),
        cap=draw(st.booleans()),
    )


windowed = (
    historical_peaks()
    | st.builds(RcLike, percentile=percentiles, **windows)
    | st.builds(MachinePercentile, percentile=percentiles, **windows)
    | st.builds(NSigma, n=st.floats(0.0, 6.0), form=st.sampled_from(Form), **windows)
)
simple: st.SearchStrategy[Predictor] = st.builds(BorgDefault, phi=st.floats(0.0, 1.0)) | windowed
predictors: st.SearchStrategy[Predictor] = simple | st.builds(
    Maximum, st.lists(simple, min_size=1, max_size=3).map(tuple)
)
oracles = st.builds(PeakOracle, horizon=st.integers(0, 12), percentile=percentiles, cap=st.booleans())


def as_samples(cell: dict[int, list[Sample]], seed: int | None = None) -> TaskSamples:
    """Return the samples of all machines; with a seed, in a random order."""
    rows = [(machine, *sample) for machine, samples in cell.items() for sample in samples]
    if seed is not None:
        rows = [rows[place] for place in np.random.default_rng(seed).permutation(len(rows))]
    machine, task, time, usage, limit = (list(column) for column in zip(*rows, strict=True))
    return TaskSamples.from_columns(machine=machine, task=task, time=time, usage=usage, limit=limit, step=STEP)
