"""Range: the per-repetition sums of a node fit into 32 bits (docs/constraints/capacity.md)."""

from __future__ import annotations

from plb.compiler import kernel
from plb.constraints.description import RuleDescription
from plb.errors import InvalidValueError
from plb.model.rules import Rule, RuleMask
from plb.state.arrays import Problem, Solution

RULE = int(Rule.RANGE)
LARGEST_SUM = 2**31 - 2
"""Largest sum of peaks of a node, in quanta; a coarser quantum allows more load."""


@kernel(inline=True)
def refuses(problem: Problem, solution: Solution, enforced: RuleMask, row: int, target: int) -> bool:
    """Return whether the largest peaks of replica `row` and of all replicas on `target` could exceed LARGEST_SUM."""
    ceiling, peak_ceiling = solution.ceiling, problem.peak_ceiling
    for metric in range(ceiling.shape[1]):  # noqa: SIM110 (compiled; a generator would not be)
        if ceiling[target, metric] + peak_ceiling[row, metric] > LARGEST_SUM:
            return True
    return False


def check_range(solution: Solution) -> None:
    """Raise an error for peaks whose sums could overflow (docs/constraints/capacity.md)."""
    if (highest_sum := int(solution.ceiling.max(initial=0))) > LARGEST_SUM:
        allowed = f"at most {LARGEST_SUM}: give a coarser Metric(quantum=...)"
        raise InvalidValueError("expected demand", "peaks of one node in quanta", highest_sum, allowed)


DESCRIPTION = RuleDescription(
    Rule.RANGE,
    words="its peaks and those on the node exceed the range of quanta; give a coarser Metric(quantum=...)",
)
