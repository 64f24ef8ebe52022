"""Gaussian Percentile Approximation ([2]): colocation of tasks by a probabilistic fit test.

Usage is given as realisations, an array of tasks × realisations × resources, or as means and variances. Begin reading
in `plb.risk.gaussian.fit_tests`.
"""

from plb.risk.gaussian.fit_tests import (
    GPA,
    OVERLOADS,
    PAPER_TESTS,
    PERCENTS,
    Cantelli,
    Demands,
    FitTest,
    MeanTimes,
    Percentile,
)
from plb.risk.gaussian.machines import Fit, Machines
from plb.risk.gaussian.observation import TaskStatistics, observe, split_observations
from plb.risk.gaussian.packing import (
    MAX_FAILURES,
    GaussianPacking,
    normalised_machines,
    overload_by_machine,
    pack,
)
from plb.risk.gaussian.total import Total

__all__ = [
    "GPA",
    "MAX_FAILURES",
    "OVERLOADS",
    "PAPER_TESTS",
    "PERCENTS",
    "Cantelli",
    "Demands",
    "Fit",
    "FitTest",
    "GaussianPacking",
    "Machines",
    "MeanTimes",
    "Percentile",
    "TaskStatistics",
    "Total",
    "normalised_machines",
    "observe",
    "overload_by_machine",
    "pack",
    "split_observations",
]
