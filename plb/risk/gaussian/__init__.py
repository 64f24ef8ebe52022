"""Gaussian Percentile Approximation ([2]): colocation of tasks by a probabilistic fit test.

Usage is given as realisations, an array of tasks × realisations × resources, or as means and variances. Begin reading
in `plb.risk.gaussian.packing`.
"""

from plb.risk.gaussian.packing import (
    GPA,
    MAX_FAILURES,
    OVERLOADS,
    PAPER_TESTS,
    PERCENTS,
    Cantelli,
    Demands,
    Fit,
    FitTest,
    GaussianPacking,
    Machines,
    MeanTimes,
    Percentile,
    normalised_machines,
    overload_by_machine,
    pack,
)
from plb.risk.gaussian.statistics import TaskStatistics, Total, observe, split_observations

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
