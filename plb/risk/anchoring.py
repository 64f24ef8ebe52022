"""Sampled traces anchored at what a replica has shown: it grows from its largest demand by what the trace still grew.

[1] section 5.1 lets a replica follow an eligible trace as recorded. Eligibility bounds the trace's maximum from below
only, so a replica that has long stopped growing is expected to reach the mean of all larger maxima. Here the trace
tells how much growth is left at the replica's age, and the replica's own record where that growth starts.
"""

from __future__ import annotations

import math

from plb.arrays import Float, Int, Int32
from plb.kernel import kernel
from plb.steps import LARGEST_VALUE


@kernel
def anchor_peaks(
    peak: Int32,
    peak_ceiling: Int,
    settled_age: Float,
    rows: Int,
    trace: Int32,
    age: Float,
    largest_demand: Float,
    level: Float,
    initial: Float,
    growth: Float,
    trend: Int,
    steps: Float,
) -> None:
    """Fill in the peaks of `rows`: the largest demand seen plus what the sampled trace still grows from this age on.

    ``peak = LBMax + M − demand(age)`` with the curve of `plb.risk.demand`; a metric without trend keeps its level.

    Parameters
    ----------
    peak, peak_ceiling
        (M+1, R, K) and (M+1, R) steps; changed.
    settled_age
        (M,) age in seconds after which the peaks of a row no longer change by themselves; changed.
    rows
        (m,) rows to fill in.
    trace
        (M, K) rows of the history.
    age, largest_demand
        (M,) seconds and (M, R) user units.
    level, initial, growth
        (T, R) of the history, user units and seconds.
    trend
        (R,) 1 for a metric with trend, else 0.
    steps
        (R,) user units a step.
    """
    for row in rows:
        settled_age[row] = 0.0
        for metric in range(peak.shape[1]):
            highest = 0
            for k in range(peak.shape[2]):
                at = trace[row, k]
                expected = level[at, metric]
                if trend[metric]:
                    left = expected - initial[at, metric]
                    duration = growth[at, metric]
                    settled_age[row] = max(settled_age[row], duration)
                    left *= 1.0 - age[row] / duration if age[row] < duration else 0.0
                    expected = largest_demand[row, metric] + left
                steps_up = min(math.ceil(expected / steps[metric]), LARGEST_VALUE)
                peak[row, metric, k] = steps_up
                highest = max(highest, steps_up)
            peak_ceiling[row, metric] = highest
