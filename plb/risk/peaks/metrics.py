"""Accuracy of predictions relative to the oracle: savings, violation rate and violation severity ([5] section 5.1.3).

All use the rows that both the predictor and the oracle have. A prediction violates the oracle if it is
below it by more than a billionth of it: anything less is rounding.
"""

from __future__ import annotations

import attrs
import numpy as np

from plb.array_types import Bool, Float, Int

TOLERANCE = 1e-9
"""Share of the oracle by which a prediction must miss it."""


@attrs.frozen(eq=False)
class MachineMetrics:
    """Metrics of one predictor by machine, each averaged over the machine's steps; shapes (M,).

    Parameters
    ----------
    machine
        Number of the machine.
    steps
        Steps that were compared.
    savings
        Mean of the savings ratio.
    violation_rate
        Share of the steps that violate the oracle.
    violation_severity
        Mean of the violation severity, 0 where there is no violation.
    """

    machine: Int
    steps: Int
    savings: Float
    violation_rate: Float
    violation_severity: Float


@attrs.frozen(eq=False)
class CellMetrics:
    """Metrics of one predictor over all machines together, the cell; by time, shapes (T,).

    Parameters
    ----------
    time
        Of the steps that any machine has.
    savings
        ``(sum L - sum P) / sum L`` over the machines: of all limits, the share that was set free ([5] figure 10 d).
    violation_rate
        Share of the machines that violate the oracle.
    violation_severity
        Mean of the violation severity over the machines.
    """

    time: Int
    savings: Float
    violation_rate: Float
    violation_severity: Float


def savings_ratio(peak: Float, limit: Float) -> Float:
    """Return ``(L - P) / L``; 0 where the limit is 0, since there is nothing to save."""
    return np.divide(limit - peak, limit, out=np.zeros(np.shape(limit)), where=limit > 0.0)


def violations(peak: Float, oracle: Float) -> Bool:
    """Return where a prediction lies below the oracle."""
    return np.asarray(peak < oracle - TOLERANCE * oracle)


def violation_severity(peak: Float, oracle: Float) -> Float:
    """Return ``(P_O - P) / P_O`` where there is a violation, 0 elsewhere."""
    return np.divide(oracle - peak, oracle, out=np.zeros(np.shape(oracle)), where=violations(peak, oracle))


def machine_metrics(machine: Int, limit: Float, peak: Float, oracle: Float) -> MachineMetrics:
    """Return the metrics of a predictor by machine.

    Parameters
    ----------
    machine, limit, peak, oracle
        Value of each machine and step, (S,), as in `Predictions`; NaN if the predictor or the oracle has no row.
    """
    both, group, numbers = _compared(machine, peak, oracle)
    steps = np.bincount(group)
    savings, missed, severity = (_mean(one, group, steps) for one in _ratios(limit[both], peak[both], oracle[both]))
    return MachineMetrics(numbers, steps, savings, missed, severity)


def cell_metrics(time: Int, limit: Float, peak: Float, oracle: Float) -> CellMetrics:
    """Return the metrics of a predictor over all machines, by time; see `machine_metrics`."""
    both, group, times = _compared(time, peak, oracle)
    machines = np.bincount(group)
    _, missed, severity = (_mean(one, group, machines) for one in _ratios(limit[both], peak[both], oracle[both]))
    limits, peaks = (_mean(column[both], group, machines) for column in (limit, peak))
    return CellMetrics(times, savings_ratio(peaks, limits), missed, severity)


def _compared(key: Int, peak: Float, oracle: Float) -> tuple[Bool, Int, Int]:
    """Return which rows count, the group of each of these, and the key of each group."""
    both = ~(np.isnan(peak) | np.isnan(oracle))
    keys, group = np.unique(key[both], return_inverse=True)
    return both, group, keys


def _ratios(limit: Float, peak: Float, oracle: Float) -> tuple[Float, Float, Float]:
    missed = violations(peak, oracle).astype(np.float64)
    return savings_ratio(peak, limit), missed, violation_severity(peak, oracle)


def _mean(values: Float, group: Int, count: Int) -> Float:
    return np.asarray(np.bincount(group, values) / count)
