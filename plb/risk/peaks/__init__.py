"""Peak prediction ([5]): the largest future usage of the tasks of a machine.

Begin reading in `plb.risk.peaks.predictors`.
"""

from plb.risk.peaks.bulk import (
    CellMetrics,
    MachineMetrics,
    Predictions,
    cell_metrics,
    machine_metrics,
    predict,
    savings_ratio,
    violation_severity,
    violations,
)
from plb.risk.peaks.predictors import (
    BorgDefault,
    Form,
    HistoricalPeak,
    MachinePercentile,
    Maximum,
    NSigma,
    PeakOracle,
    Predictor,
    PredictorOrOracle,
    RcLike,
    parse,
    spec,
)
from plb.risk.peaks.samples import TaskSamples
from plb.risk.peaks.streaming import MachinePeak, PeakAt

__all__ = [
    "BorgDefault",
    "CellMetrics",
    "Form",
    "HistoricalPeak",
    "MachineMetrics",
    "MachinePeak",
    "MachinePercentile",
    "Maximum",
    "NSigma",
    "PeakAt",
    "PeakOracle",
    "Predictions",
    "Predictor",
    "PredictorOrOracle",
    "RcLike",
    "TaskSamples",
    "cell_metrics",
    "machine_metrics",
    "parse",
    "predict",
    "savings_ratio",
    "spec",
    "violation_severity",
    "violations",
]
