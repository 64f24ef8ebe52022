"""Range: the per-repetition sums of a node fit into 32 bits."""

from __future__ import annotations

from plb.array_types import Int
from plb.compiler import kernel
from plb.errors import InvalidValueError
from plb.state.arrays import Solution

LARGEST_SUM = 2**31 - 2
"""Largest sum of peaks of a node, in quanta; a coarser quantum allows more load."""


@kernel(inline=True)
def exceeds_range(ceiling: Int, peak_ceiling: Int, row: int, target: int) -> bool:
    """Return whether the largest peaks of `row` and of all replicas on `target` could exceed LARGEST_SUM.

    Parameters
    ----------
    ceiling
        (N, R) quanta: sum of the largest peaks of the replicas on each node.
    peak_ceiling
        (M+1, R) quanta: the largest peak of each replica.
    """
    for metric in range(ceiling.shape[1]):  # noqa: SIM110 (compiled; a generator would not be)
        if ceiling[target, metric] + peak_ceiling[row, metric] > LARGEST_SUM:
            return True
    return False


def check_range(solution: Solution) -> None:
    """Raise an error for peaks whose sums could overflow (docs/constraints/range.md)."""
    if (highest_sum := int(solution.ceiling.max(initial=0))) > LARGEST_SUM:
        allowed = f"at most {LARGEST_SUM}: give a coarser Metric(quantum=...)"
        raise InvalidValueError("expected demand", "peaks of one node in quanta", highest_sum, allowed)
