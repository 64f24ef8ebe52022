"""The closing table of an evaluation."""

from __future__ import annotations

from rich.box import SIMPLE_HEAVY
from rich.table import Table

from cluster.learning.config import LearningConfig
from cluster.learning.evaluation import LEARNED, EvaluationResult
from cluster.learning.metrics import UTILISATION, figure
from cluster.results.intervals import Interval, decimals_of

MARKS = {"better": "<", "worse": ">", "equal": " "}
MOST_DECIMALS = 2
SHOWN_SINGLY = 2
"""So many resources have a column of their own; more of them share one."""


def evaluation_table(evaluation: EvaluationResult, config: LearningConfig) -> Table:
    """Return the means of all policies; where the learned one is better or worse for sure, a mark says so."""
    resources = config.machines.resources
    used = [UTILISATION + one for one in resources] if len(resources) <= SHOWN_SINGLY else ["utilisation"]
    columns = ("reward", "over_use", "machines", *used, "fragmentation", "wait")
    table = Table(
        title=f"{config.name}: {evaluation.machines} machines, {evaluation.sequences} held-back job sequences",
        caption="± half of the 95 % interval; < the learned policy is better, > worse, sequence by sequence",
        box=SIMPLE_HEAVY,
    )
    table.add_column("policy", no_wrap=True)
    for column in columns:
        table.add_column(figure(column).heading, justify="right", no_wrap=True)
    for policy in evaluation.figures:
        cells = []
        for column in columns:
            mark = " " if policy == LEARNED else MARKS[evaluation.verdict(policy, column)]
            cells.append(f"{cell(evaluation.interval(policy, column))}{mark}")
        table.add_row(policy, *cells, end_section=policy == LEARNED)
    return table


def cell(interval: Interval) -> str:
    """Return a mean and half of its interval, to the first digit of the latter."""
    half = interval.half_width or 0.0
    decimals = min(MOST_DECIMALS, decimals_of(half)) if half else (1 if interval.mean else 0)
    return f"{interval.mean:,.{decimals}f}±{half:.{decimals}f}"
