"""The replicas of a partition, outside kernels."""

from __future__ import annotations

from collections.abc import Iterator

from plb.state.arrays import Problem


def siblings_of(problem: Problem, row: int) -> Iterator[int]:
    """Yield the rows of the partition of `row`, itself first."""
    this = row
    while True:
        yield this
        this = int(problem.sibling[this])
        if this == row:
            return
