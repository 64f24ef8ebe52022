"""The fixed point of repair and balancing: on their own result, without changes since, neither runs again.

Service Fabric skips a balancing if neither state nor load has changed since the last one (docs/service-fabric.md,
Balancing). Here the same holds for the result, once it is applied, and for repairs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import attrs
import numpy as np

from plb.array_types import NOWHERE, Int
from plb.compiler import kernel
from plb.model.move import Phase
from plb.planning.phases import PhaseRun
from plb.planning.scheduler import Scheduler
from plb.planning.service_domains import ServiceDomain
from plb.search.budget import Budget
from plb.settings.config import PlbConfig
from plb.state.arrays import Problem
from plb.state.cluster_state import ClusterState

MOST_FOLLOWED = 1000
"""Changed rows up to which it is followed whether they return to the end of a search."""
SERVICE = 0
"""Column of `row_values` with the service, counted from 1; 0 where a row is nowhere."""
WITHOUT_LOADS = 7
"""Number of columns of `row_values` without age and loads."""

Circumstances: TypeAlias = tuple[int, int, PlbConfig, Budget, int | None, bool]
"""What an `Occasion` depends on besides seed and replicas."""


@attrs.frozen
class Occasion:
    """The input of the phases of one call."""

    domain: int | None
    """Key of the service domain; None if all services are one."""
    services: Sequence[int]
    """Indices of its services."""
    circumstances: Circumstances
    """All else that its result depends on, but seed and replicas: versions of nodes and services, settings, budget,
    what is left of `max_moves_per_hour`, and `is_light`.
    """
    is_light: bool = False
    """Whether repairs ignore the spread over domains, after an event of a node."""
    is_delayed: bool = False
    """Whether balancing waits, after an event of a node."""
    allowance: int | None = None
    """Most moves that throttles allow; None: no limit."""

    @classmethod
    def of(
        cls,
        state: ClusterState,
        scheduler: Scheduler,
        domain: ServiceDomain | None,
        budget: Budget,
        now: float,
        *,
        is_refresh: bool,
    ) -> Occasion:
        """Return the occasion of a search of a domain, None: of all services, at the time `now`.

        `is_refresh`: whether the delays after events of nodes hold.
        """
        services = state.living_indices() if domain is None else domain.services
        is_light = is_refresh and scheduler.is_light(services, now)
        moves_left_in_hour = scheduler.left_of_hour(now)
        return cls(
            domain=None if domain is None else domain.key,
            services=services,
            circumstances=(
                state.node_version,
                state.services_version,
                state.config,
                budget,
                moves_left_in_hour,
                is_light,
            ),
            is_light=is_light,
            is_delayed=is_refresh and scheduler.is_delayed(services, now),
        )


@attrs.define(eq=False)
class _End:
    """The configuration in which a search ended."""

    circumstances: Circumstances
    """The circumstances of the search, see `Occasion`."""
    allowance: int | None
    """Most moves that throttles allowed; None: no limit."""
    services: frozenset[int] | None
    """The services of the search, by index + 1 as in `row_values`; None: all."""
    differing: dict[int, bytes]
    """The rows that are not as they were at the end, each with its `row_values` then."""

    def follow(self, rows: Int, before: Int, after: Int) -> None:
        """Note that rows, (m,), have changed from `before` to `after`, their `row_values`, (m, W) each."""
        for row, old_values, new_values in zip(rows.tolist(), before, after, strict=True):
            if self.services is not None and {int(old_values[SERVICE]), int(new_values[SERVICE])}.isdisjoint(
                self.services
            ):
                continue
            expected = self.differing.get(row, old_values.tobytes())
            if new_values.tobytes() == expected:
                self.differing.pop(row, None)
            else:
                self.differing[row] = expected


class FixedPoint:
    """Remembers the end of the last search of each phase and domain that no budget of moves cut short."""

    def __init__(self) -> None:
        self._ends: dict[tuple[int | None, Phase], _End] = {}

    @property
    def remembers_any(self) -> bool:
        """Whether the end of any search is known, so that changes have to be followed."""
        return bool(self._ends)

    def follow(self, rows: Int, before: Int, after: Int) -> None:
        """Note that the host has changed replicas `rows`, (m,); `before`, `after`: (m, W) their `row_values`."""
        has_changed = (before != after).any(axis=1)
        if np.count_nonzero(has_changed) > MOST_FOLLOWED:
            self.forget()
        for end in self._ends.values():
            end.follow(rows[has_changed], before[has_changed], after[has_changed])

    def ends(self) -> Mapping[tuple[int | None, Phase], _End]:
        """Return the ends of searches, by domain and phase, for `restore`."""
        return dict(self._ends)

    def restore(self, ends: Mapping[tuple[int | None, Phase], _End]) -> None:
        """Remember these ends again, as if nothing had been searched since `ends` returned them."""
        self._ends = dict(ends)

    def forget(self) -> None:
        """Forget all ends: everything may have changed."""
        self._ends.clear()

    def forget_domain(self, key: int) -> None:
        """Forget the ends of the service domain with this key, which exists no more."""
        for phase in Phase:
            self._ends.pop((key, phase), None)

    def search(self, phase: Phase, run: PhaseRun, occasion: Occasion) -> None:
        """Run a phase on a domain, or log that it is skipped: its last run ended with the present input.

        A balancing that continues the annealing of the host is never skipped.
        """
        key = (occasion.domain, phase)
        end = self._ends.get(key)
        continues = phase is Phase.BALANCING and (run.budget.temperature is not None or len(run.start.rows) > 0)
        is_same = (
            end is not None
            and (end.circumstances, end.allowance) == (occasion.circumstances, occasion.allowance)
            and not end.differing
        )
        may_skip = is_same and not continues and not run.changed
        # without work, the phase itself notes that there is none
        is_light = occasion.is_light
        if may_skip and (run.is_anything_broken(light=is_light) if phase is Phase.REPAIR else run.may_balance):
            if phase is Phase.BALANCING:
                run.weigh_for_balancing()
            run.log.skip(phase)
            return
        if phase is Phase.REPAIR:
            run.repair(light=is_light)
        else:
            run.balance()
        stops_early = phase is Phase.REPAIR and run.may_repair_more
        if run.is_bound or run.changes_roles or run.leaves_alone or stops_early:
            self._ends.pop(key, None)
        else:
            is_all = occasion.domain is None
            services = None if is_all else frozenset(service + 1 for service in occasion.services)
            self._ends[key] = _End(occasion.circumstances, occasion.allowance, services, _ends_of(run))


def _ends_of(run: PhaseRun) -> dict[int, bytes]:
    """Return the `row_values` after a run of the rows that it has moved, as bytes by row."""
    if not run.changed:
        return {}
    rows = run.moved_rows
    values = row_values(run.problem, run.solution.node, rows)
    return {row: values_of_row.tobytes() for row, values_of_row in zip(rows.tolist(), values, strict=True)}


def row_values(problem: Problem, node: Int, rows: Int) -> Int:
    """Return what a search depends on of `rows`, (m, W), as integers to be compared; zeros for rows that are nowhere.

    `node`: (M,) the node of every row.
    """
    metrics = problem.load.shape[1]
    time_columns = int(problem.timeline)  # only departures depend on time
    values = np.zeros((len(rows), WITHOUT_LOADS + time_columns + 2 * metrics), np.int64)
    _write_values(problem, node, rows, WITHOUT_LOADS + time_columns, values)
    if time_columns:
        is_present = values[:, SERVICE] > 0
        values[is_present, WITHOUT_LOADS] = problem.age[rows[is_present]].view(np.int64)
    return values


@kernel
def _write_values(problem: Problem, node: Int, rows: Int, first_load: int, values: Int) -> None:
    """Write the `row_values` of `rows`, (m,), without the age, to `values`, (m, W), which is 0 before.

    `node`: (M,) the node of every row; `first_load`: the column where the loads begin.
    """
    metrics = problem.load.shape[1]
    for index in range(rows.shape[0]):
        row = rows[index]
        if node[row] == NOWHERE and not problem.leaving[row]:
            continue
        values[index, SERVICE] = problem.service[row] + 1
        values[index, 1] = node[row]
        values[index, 2] = problem.role[row]
        values[index, 3] = problem.repairable[row]
        values[index, 4] = problem.leaving[row]
        values[index, 5] = problem.move_cost[row]
        values[index, 6] = problem.affinity[row]
        for metric in range(metrics):
            values[index, first_load + metric] = problem.load[row, metric]
            values[index, first_load + metrics + metric] = problem.peak_ceiling[row, metric]
