"""The options of a study of paper 1, the runs that follow from them, and the pilots that find its densities."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import numpy as np
from rich.table import Table

from cluster.errors import DensityError
from cluster.runs.sweep import Task
from cluster.scenario.scenario import MOST_REPEATS
from cluster.scenario.workload_sections import MOST_DENSITY
from cluster.studies.base import NOTHING, ORIGINAL, Arm, Base
from cluster.studies.design import MOST_SAMPLES, WITHOUT_DOMAINS, Design, StudySetting, middle_of_each, run_simulation
from cluster.studies.figures import figures_of
from cluster.studies.runner import Finished, OutputDirectory, Row, Study, StudyResult, run_tasks
from cluster.studies.violations import AVOIDABLE
from plb import InvalidValueError, PlbError
from plb.validation import check_count, check_number

PILOT_SEED, PILOT_REPEATS = 1_000_003, 2
PILOT_DENSITIES = tuple(float(density) for density in np.round(np.arange(0.75, 5.01, 0.25), 2))
"""Densities of a pilot for workloads whose usual density is 2. Others are in proportion."""
PILOT_USUAL_DENSITY = 2.0
ANNEALING_MARKS = (20.0, 50.0)
"""Avoidable violations of the original in a run of 40 nodes at the densities of figure 8."""
POLICIES_MARKS, LARGER_NODES_MARKS = (20.0, 50.0, 150.0), (50.0,)
"""Avoidable violations of the original in a run at the densities of figure 9, on nodes of 80 and of 128 vCores."""
GRAIN = 0.01
"""Unit to which densities are rounded; a tenth of it if the usual density is below 0.2, and so on."""


@attrs.frozen
class Pilot:
    """A pilot of one study on one kind of hardware."""

    study: str
    """Name of the study."""
    vcores: float
    """VCores of a node."""
    days: float
    """Days of a run."""
    engine: Mapping[str, Any]
    """Settings of the engine."""
    marks: Sequence[float]
    """Avoidable violations of the original in a run at the densities that are to be found."""
    repeats: int = PILOT_REPEATS
    """Runs at each density."""

    @property
    def name(self) -> str:
        """Name of the study, and vCores of a node, in words."""
        return f"{self.study}, {self.vcores:g} vCores"

    def known_densities(self, base: Base) -> Mapping[str, Sequence[float]] | None:
        """Return the densities that this pilot once found, by workload; None if `DENSITIES` lacks one of `base`."""
        densities = DENSITIES.get((self.study, self.vcores), {})
        return densities if all(name in densities for name in base.workloads) and base.is_of_regions else None

    def run_in(self, output: OutputDirectory, base: Base) -> dict[str, list[float]]:
        """Return the densities at the pilot's marks, by workload, ascending; `output` keeps the runs."""
        below = output.below(f"densities-{self.study}-{self.vcores:g}")

        def rows_of(step: int, design: Design) -> Sequence[Row]:
            name = f"densities of {self.name}: step {step}"
            finished = run_tasks(name, run_simulation, design.tasks(), below.below(f"step-{step}"), design.described())
            for task, outcome in finished.failed:
                if outcome.kind != DensityError.__name__:
                    raise PlbError(f"the pilot failed: {task.key}: {outcome.last_line}")
            return finished.rows

        return self.densities(base, rows_of)

    def densities(self, base: Base, rows_of: Callable[[int, Design], Sequence[Row]]) -> dict[str, list[float]]:
        """Return the densities that the pilot finds, by workload.

        `rows_of` makes the runs of a step, and returns a row for each run that did not fail. The first step tries the
        usual density, the next ones the neighbours of the densities before, until the original has at most as many
        avoidable violations as the least mark and at least as many as the largest, or the cluster cannot hold the
        tenants.
        """
        if not base.density:
            raise PlbError(f"densities of {base.workloads[0]}: recorded arrivals have no density")
        digits = max(0, math.ceil(-math.log10(10.0 * base.density / PILOT_USUAL_DENSITY)))
        grid = [round(base.density * density / PILOT_USUAL_DENSITY, 4 + digits) for density in PILOT_DENSITIES]
        tried: dict[str, dict[int, list[float]]] = {name: {} for name in base.workloads}
        for step in range(1, len(grid) + 1):
            next_indices = {name: self._next_index(tried[name], len(grid)) for name in base.workloads}
            indices = {name: index for name, index in next_indices.items() if index is not None}
            if not indices:
                break
            rows = rows_of(step, self._design(base, {name: (grid[index],) for name, index in indices.items()}))
            for name, index in indices.items():
                tried[name][index] = [row[AVOIDABLE] for row in rows if row["workload"] == name]
        for name, by_index in tried.items():
            if not any(by_index.values()):
                raise PlbError(f"densities of {name}: the cluster cannot hold even the lowest, {grid[0]:g}")
        found = {
            name: {grid[index]: violations for index, violations in by_index.items() if violations}
            for name, by_index in tried.items()
        }
        return {name: self._at_marks(by_density, digits) for name, by_density in found.items()}

    def settings(self, base: Base, densities: Mapping[str, Sequence[float]]) -> list[StudySetting]:
        """Return the settings of each workload of a base at its densities."""
        vcores = self.vcores if base.vcores is None else base.vcores
        return [StudySetting(name, vcores, density) for name in base.workloads for density in densities.get(name, ())]

    def _design(self, base: Base, densities: Mapping[str, Sequence[float]]) -> Design:
        """Return the runs of the original energy for workloads at their densities."""
        settings = self.settings(base, densities)
        return Design(
            base, settings, (ORIGINAL,), days=self.days, repeats=self.repeats, seed=PILOT_SEED, engine=self.engine
        )

    def _next_index(self, tried: Mapping[int, Sequence[float]], count: int) -> int | None:
        """Return the index of the next of `count` densities to try, or None if the marks lie between the tried ones.

        `tried`: violations of the runs by index, without gaps between indices; none where the tenants do not fit.
        """
        if not tried:
            return PILOT_DENSITIES.index(PILOT_USUAL_DENSITY)
        low, high = min(tried), max(tried)
        if low > 0 and (not tried[low] or float(np.mean(tried[low])) > min(self.marks)):
            return low - 1
        if high < count - 1 and tried[high] and float(np.mean(tried[high])) < max(self.marks):
            return high + 1
        return None

    def _at_marks(self, violations: Mapping[float, Sequence[float]], digits: int) -> list[float]:
        """Return the densities at which the mean violations, interpolated, reach the marks.

        `violations`: of each run, by density; `digits`: further decimals of the densities.
        """
        densities = sorted(violations)
        means = np.maximum.accumulate([float(np.mean(violations[density])) for density in densities])
        at_marks = [float(np.interp(mark, means, densities)) for mark in self.marks]
        grain = GRAIN / 10**digits
        return list(dict.fromkeys(round(round(density / grain) * grain, 2 + digits) for density in at_marks))


ANNEALING_PILOT = Pilot("annealing", 80.0, 10.0, {}, ANNEALING_MARKS)
POLICIES_PILOTS = (
    Pilot("policies", 80.0, 12.5, WITHOUT_DOMAINS, POLICIES_MARKS),
    Pilot("policies", 128.0, 12.5, WITHOUT_DOMAINS, LARGER_NODES_MARKS),
)
PILOTS = (ANNEALING_PILOT, *POLICIES_PILOTS)
DENSITIES: Mapping[tuple[str, float], Mapping[str, Sequence[float]]] = {
    ("annealing", 80.0): {
        "region1": (2.03, 2.14),
        "region2": (2.53, 2.65),
        "region3": (1.52, 1.68),
        "region4": (1.43, 1.55),
    },
    ("policies", 80.0): {
        "region1": (1.92, 2.07, 2.25),
        "region2": (2.53, 2.62, 2.75),
        "region3": (1.51, 1.66, 1.76),
        "region4": (1.32, 1.51, 1.68),
    },
    ("policies", 128.0): {"region1": (2.03,), "region2": (2.55,), "region3": (1.5,), "region4": (1.54,)},
}
"""Densities of the synthetic regions by study and vCores, as ``plb study densities`` finds them."""
QUICK_DAYS = 2.0


@attrs.frozen(kw_only=True)
class StudyRequest:
    """The options of a study. None: as in the paper."""

    base: Base
    """Cluster and tenants."""
    output: OutputDirectory
    """Directory of the results."""
    quick: bool = False
    """True: a small part of the study."""
    full: bool = False
    """True: all arms of the study of policies, and more repeats."""
    oracle: bool = False
    """True: also the arms of the study of policies that use an oracle."""
    initial_demand: bool = False
    """True: also the arms of the study of policies with other initial demands."""
    samples: int | None = None
    """Samples of the study of compression."""
    densities: Sequence[float] | None = None
    """Tenant densities of the settings."""
    repeats: int | None = None
    """Runs of each arm in each setting."""
    days: float | None = None
    """Simulated days of each run."""
    first_hours: int | None = None
    """Hours until the first predictions of the study of calibration."""
    seed: int = 0
    """Seed of all random numbers."""

    def __attrs_post_init__(self) -> None:
        if self.days is not None:
            check_number("study", "days", self.days, low_open=True)
        if self.repeats is not None:
            check_count("study", "repeats", self.repeats, low=1, high=MOST_REPEATS)
        if self.first_hours is not None:
            check_count("study", "first_hours", self.first_hours)
        if self.samples is not None:
            check_count("study", "samples", self.samples, low=1, high=MOST_SAMPLES)
        for density in self.densities or ():
            check_number("study", "density", density, low_open=True, high=MOST_DENSITY)
            if not self.base.density:
                raise InvalidValueError(
                    "study", "density", density, "none, as the arrivals of the scenario are recorded"
                )

    def settings(self, pilots: Sequence[Pilot]) -> list[StudySetting]:
        """Return the settings at the requested densities, else at `DENSITIES`, else at densities that pilots find."""
        settings = []
        for pilot in pilots:
            densities = pilot.known_densities(self.base)
            if self.densities:
                densities = dict.fromkeys(self.base.workloads, self.densities)
            elif densities is None and (self.quick or not self.base.density):
                densities = dict.fromkeys(self.base.workloads, (self.base.density,))
            elif densities is None:
                densities = pilot.run_in(self.output, self.base)
            elif self.quick:
                densities = {
                    name: workload_densities[len(workload_densities) // 2 :][:1]
                    for name, workload_densities in densities.items()
                }
            settings += pilot.settings(self.base, densities)
        return settings

    def design(
        self,
        pilots: Sequence[Pilot],
        arms: Sequence[Arm],
        *,
        repeats: int,
        days: float,
        quick_days: float = QUICK_DAYS,
        middle: int | None = None,
    ) -> Design:
        """Return the runs of arms at the densities of pilots.

        `middle`: number of middle densities of each workload; None: all densities. `repeats`, `days`, `quick_days`:
        used if the request has none.
        """
        run_options: dict[str, Any] = {"repeats": repeats, "days": days, "quick_days": quick_days}
        run_options["engine"] = pilots[0].engine
        usual_settings = pilots[0].settings(self.base, dict.fromkeys(self.base.workloads, (self.base.density,)))
        self.design_at(
            usual_settings, arms, **run_options
        )  # raises errors that do not depend on the density before a pilot runs
        settings = self.settings(pilots)
        if middle is not None and not self.densities:
            settings = middle_of_each(settings, middle)
        return self.design_at(settings, arms, **run_options)

    def design_at(
        self,
        settings: Sequence[StudySetting],
        arms: Sequence[Arm],
        *,
        repeats: int,
        days: float,
        quick_days: float = QUICK_DAYS,
        engine: Mapping[str, Any] = NOTHING,
        first_seed: int = 0,
    ) -> Design:
        """Return the runs of arms in settings; `first_seed` is added to the seed of the request.

        `repeats`, `days`, `quick_days`: if the request has no others; `engine`: fields of `plb.PlbConfig`.
        """
        return Design(
            self.base,
            settings,
            arms,
            days=(quick_days if self.quick else days) if self.days is None else self.days,
            repeats=(1 if self.quick else repeats) if self.repeats is None else self.repeats,
            seed=first_seed + self.seed,
            engine=engine,
        )


@attrs.frozen(eq=False)
class DensityStudy(Study):
    """The densities that pilots find. The tasks of the pilots are the only tasks of the study."""

    name = "densities"
    run = staticmethod(run_simulation)

    densities: Mapping[str, Mapping[str, Sequence[float]]]
    """The densities, by name of the pilot, then by workload."""

    @classmethod
    def of(cls, request: StudyRequest) -> DensityStudy:
        """Run all pilots, and return the study with their densities."""
        return cls({pilot.name: pilot.run_in(request.output, request.base) for pilot in PILOTS})

    def described(self) -> Mapping[str, Any]:
        """Return the densities."""
        return {"densities": self.densities}

    def tasks(self) -> Sequence[Task]:
        """Return no task: the pilots have made the runs already."""
        return ()

    def result(self, finished: Finished) -> StudyResult:  # noqa: ARG002
        """Return the densities."""
        return StudyResult(figures_of(self.name, densities=self.densities), (table_of_densities(self.densities),))


def table_of_densities(densities_of_studies: Mapping[str, Mapping[str, Sequence[float]]]) -> Table:
    """Return a table of the densities that pilots found, by study and workload."""
    table = Table("study", "workload", "densities", title="densities of the studies")
    for study, densities_by_workload in densities_of_studies.items():
        for workload, densities in densities_by_workload.items():
            table.add_row(study, workload, ", ".join(f"{density:g}" for density in densities))
    return table
