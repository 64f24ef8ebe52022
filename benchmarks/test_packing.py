"""Time of packing by `plb.risk.gaussian`: an instance of [2], and one with a hundred times as many tasks.

pytest benchmarks/test_packing.py
"""

from __future__ import annotations

import numpy as np
import pytest

from plb.risk.gaussian import GPA, TaskStatistics, observe, overload_by_machine, pack

TASKS, REALISATIONS = 1000, 10_000
"""Size of an instance ([2] section 5.1)."""
MEAN_TASK = 0.0274
"""Mean usage of a task as a share of a machine, as in [2] table 1."""
LONGEST = 1.0
"""Time limit of an instance in seconds."""


@pytest.fixture(scope="module")
def realisations():
    """Return the usage of skewed tasks of very different sizes."""
    rng = np.random.default_rng(0)
    usage = rng.gamma(0.5, rng.lognormal(0.0, 1.0, (TASKS, 1)), (TASKS, REALISATIONS)).astype(np.float32)
    return usage / usage.mean() * np.float32(MEAN_TASK)


@pytest.mark.parametrize("fit", ["first", "best"])
def test_instance_of_the_paper(benchmark, realisations, fit):
    """The time from realisations to machines and the frequency of overload is less than a second."""

    def whole() -> float:
        packing = pack(observe(realisations), capacity=1.0, test=GPA(0.05), fit=fit)
        return float(overload_by_machine(packing, realisations, capacity=1.0).mean())

    overload = benchmark(whole)
    assert 0.0 < overload < 0.2
    assert benchmark.stats.stats.median < LONGEST


@pytest.mark.parametrize("fit", ["first", "best"])
def test_a_hundred_thousand_tasks_by_their_moments(benchmark, fit):
    """About four thousand machines are open at the end."""
    rng = np.random.default_rng(1)
    mean = rng.lognormal(0.0, 1.0, 100 * TASKS)
    mean *= MEAN_TASK / mean.mean()
    known = TaskStatistics(mean, 2.0 * mean**2)
    packing = benchmark.pedantic(lambda: pack(known, capacity=1.0, test=GPA(0.05), fit=fit), rounds=3)
    assert packing.machines > 100 * TASKS * MEAN_TASK
