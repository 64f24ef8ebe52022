"""The fixed point of repair and balancing: on their own result, without changes since, neither runs again.

Annealing is random, so a second search from the same configuration could always find another move. Service Fabric skips
a balancing if neither state nor load has changed since the last one (docs/service-fabric.md, Balancing). Here that
holds for the result as well, once it is applied, and for repairs.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import numpy as np

from plb.array_types import NOWHERE, Int
from plb.model.move import Phase
from plb.planning.phases import PhaseRun
from plb.state.arrays import Problem, Solution

Arrays = tuple[np.ndarray, ...]


@attrs.define(eq=False)
class Occasion:
    """The input of the phases of one call.

    Parameters
    ----------
    domain
        Key of the service domain; None if all services are one.
    services
        Indices of its services; None: all.
    circumstances
        All else that its result depends on, but seed and replicas; equal values mean equal circumstances.
    """

    domain: int | None
    services: Sequence[int] | None
    circumstances: object
    _seen: tuple[Problem, Solution] | None = attrs.field(default=None, init=False)
    _arrays: Arrays = attrs.field(default=(), init=False)

    def arrays(self, run: PhaseRun) -> Arrays:
        """Return copies of what the run knows of each replica of the domain: place, load, whether it moves, and so on.

        They are those of the last call where no phase has changed anything since.
        """
        if self._seen is None or self._seen[0] is not run.problem or self._seen[1] is not run.solution:
            self._arrays = _arrays_of(run.problem, run.solution.node, self.services)
            self._seen = run.problem, run.solution
        return self._arrays


class FixedPoint:
    """Remembers the end of the last search of each phase and domain that no budget of moves cut short."""

    def __init__(self) -> None:
        self._ends: dict[tuple[int | None, Phase], tuple[object, Arrays]] = {}

    def search(self, phase: Phase, run: PhaseRun, occasion: Occasion) -> None:
        """Run a phase, unless the last one ended with the present input."""
        key = (occasion.domain, phase)
        circumstances, end = self._ends.get(key, (None, ()))
        same = end and circumstances == occasion.circumstances
        if same and all(map(np.array_equal, occasion.arrays(run), end)) and _is_requested(phase, run):
            run.skip(phase)
            return
        if phase is Phase.REPAIR:
            run.repair()
        else:
            run.balance()
        if run.is_bound:
            self._ends.pop(key, None)
        else:
            self._ends[key] = occasion.circumstances, occasion.arrays(run)


def _is_requested(phase: Phase, run: PhaseRun) -> bool:
    """Return whether a phase would search."""
    return run.is_anything_broken() if phase is Phase.REPAIR else run.is_unbalanced


def _arrays_of(problem: Problem, node: Int, services: Sequence[int] | None) -> Arrays:
    """Return the rows that are on ``node[i]`` or leave it, those of `services` only, and the data of each."""
    rows = problem.leaving | (node != NOWHERE)
    if services is not None:
        rows = rows & np.isin(problem.service, services)
    chosen = np.flatnonzero(rows)
    of_rows = (
        node,
        problem.load,
        problem.role,
        problem.repairable,
        problem.leaving,
        problem.move_cost,
        problem.affinity,
    )
    ages = problem.age[chosen] if problem.timeline else problem.age  # only departures depend on time
    return (chosen, *(array[chosen] for array in of_rows), problem.peak_ceiling[chosen], ages)
