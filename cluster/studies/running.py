"""Each study from what is wanted to its report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import attrs
import polars as pl
from rich.table import Table as RichTable

from cluster.errors import DensityError
from cluster.studies import annealing, compression, configurations, overhead, peaks_report, policies, sensitivity
from cluster.studies.arms import NOTHING, Arm
from cluster.studies.base import Base
from cluster.studies.carrying_out import TIMINGS, Finished, Place, Row, carry_out
from cluster.studies.claims import Claim, Table
from cluster.studies.densities import LADDERS, PILOT_SEED, Ladder, chosen
from cluster.studies.design import Design, Setting
from cluster.studies.figures import Violations, violations_of
from cluster.studies.plots import save_effects, save_ratios, save_settings
from cluster.studies.report import (
    ArmFigures,
    as_json,
    counts_as_json,
    effects_as_json,
    means_of,
    table_of_arms,
    table_of_claims,
    table_of_densities,
    table_of_effects,
    table_of_settings,
)
from cluster.studies.simulated import run_simulation
from cluster.sweep import Outcome, Task
from plb import PlbError
from plb.model import check_number

QUICK_DAYS = 2.0
_Save = Callable[[Path, Table, str], None]


@attrs.frozen(kw_only=True)
class Wanted:
    """What a user asks of a study; None: as the paper has it.

    Parameters
    ----------
    base
        Whose tenants it is about.
    place
        Where it is carried out.
    quick
        A small part of it.
    full, oracle, initial_demand
        Further arms, and more repeats, of the study of policies.
    samples
        Of the study of compression.
    traces
        Of the study of peaks: samples of tasks, instead of the regions.
    densities, repeats, days
        Of each setting.
    seed
        Of everything.
    """

    base: Base
    place: Place
    quick: bool = False
    full: bool = False
    oracle: bool = False
    initial_demand: bool = False
    samples: int | None = None
    traces: Path | None = None
    densities: Sequence[float] | None = None
    repeats: int | None = None
    days: float | None = None
    seed: int = 0

    def __attrs_post_init__(self) -> None:
        if self.days is not None:
            check_number("study", "days", self.days, low_open=True)
        for density in self.densities or ():
            check_number("study", "density", density, low_open=True)

    def settings(self, ladders: Sequence[Ladder]) -> list[Setting]:
        """Return the settings: at the densities that are given, or chosen before, or found by a pilot now."""
        found = []
        for ladder in ladders:
            known: Mapping[str, Sequence[float]] | None = chosen(ladder, self.base)
            if self.densities:
                known = dict.fromkeys(self.base.workloads, self.densities)
            elif known is None and self.quick:
                known = dict.fromkeys(self.base.workloads, (self.base.density,))
            elif known is None:
                known = pilot(self.base, ladder, self.place)
            elif self.quick:
                known = {name: densities[len(densities) // 2 :][:1] for name, densities in known.items()}
            found += ladder.settings(self.base, known)
        return found

    def design(
        self,
        ladders: Sequence[Ladder],
        arms: Sequence[Arm],
        *,
        repeats: int,
        days: float,
        quick_days: float = QUICK_DAYS,
    ) -> Design:
        """Return the runs of a study of policies, which by itself has so many repeats and days."""
        return self.design_at(
            self.settings(ladders),
            arms,
            repeats=repeats,
            days=days,
            quick_days=quick_days,
            engine=ladders[0].engine,
        )

    def design_at(
        self,
        settings: Sequence[Setting],
        arms: Sequence[Arm],
        *,
        repeats: int,
        days: float,
        quick_days: float = QUICK_DAYS,
        engine: Mapping[str, Any] = NOTHING,
        first_seed: int = 0,
    ) -> Design:
        """Return the runs at these settings; `first_seed` is added to the seed."""
        return self.base.design(
            settings,
            arms,
            days=(quick_days if self.quick else days) if self.days is None else self.days,
            repeats=(1 if self.quick else repeats) if self.repeats is None else self.repeats,
            seed=first_seed + self.seed,
            engine=engine,
        )


@attrs.frozen(eq=False)
class Report:
    """In what a study ends.

    Parameters
    ----------
    tables
        To be printed.
    figures
        The same as JSON.
    failed
        Tasks that failed, with their outcomes.
    """

    tables: Sequence[RichTable]
    figures: Mapping[str, Any]
    failed: Sequence[tuple[Task, Outcome]]


class _OfPolicies(Protocol):
    """What a study of policies says of itself: a module such as `annealing`."""

    COMPARED: str
    """The arm that failovers are compared with."""

    def claims(self, found: Violations) -> list[Claim]: ...

    def table(self, found: Violations) -> Table: ...


def run_annealing(wanted: Wanted) -> Report:
    """Make the runs of figure 8."""
    arms = annealing.QUICK_ARMS if wanted.quick else annealing.ARMS
    design = wanted.design(LADDERS[:1], arms, repeats=annealing.REPEATS, days=annealing.DAYS)
    return _of_policies("annealing", design, wanted.place, annealing, "figure8.png")


def run_policies(wanted: Wanted) -> Report:
    """Make the runs of figure 9; a cluster of the user's own has one kind of hardware."""
    ladders = LADDERS[1:] if wanted.base.is_of_regions else LADDERS[1:2]
    arms = policies.arms(oracle=wanted.oracle or wanted.full, initial_demand=wanted.initial_demand or wanted.full)
    repeats = policies.REPEATS if wanted.full else policies.CORE_REPEATS
    design = wanted.design(ladders, arms, repeats=repeats, days=policies.DAYS)
    return _of_policies("policies", design, wanted.place, policies, "figure9.png")


def run_compression(wanted: Wanted) -> Report:
    """Draw the samples of figure 7."""
    samples = wanted.samples or (compression.QUICK_SAMPLES if wanted.quick else compression.SAMPLES)
    tasks = compression.tasks(wanted.base, samples, wanted.seed)
    finished = carry_out("compression", compression.run_compression, tasks, wanted.place, {"seed": wanted.seed})
    if not finished.rows:
        return Report((), {"study": "compression", "settings": [], "ratios": {}}, finished.failed)
    found = compression.effects(finished.rows)
    save_effects(wanted.place.folder / "figure7.png", found)
    return Report((table_of_effects(found),), effects_as_json(found), finished.failed)


def run_overhead(wanted: Wanted) -> Report:
    """Measure what section 8.5 measures, one run after the other, so that times mean something."""
    base = attrs.evolve(wanted.base, workloads=wanted.base.workloads[:1])
    alone = attrs.evolve(wanted, base=base, place=attrs.evolve(wanted.place, jobs=1))
    design = alone.design(LADDERS[1:2], overhead.ARMS, repeats=1, days=overhead.DAYS, quick_days=overhead.QUICK_DAYS)
    for task in attrs.evolve(design, settings=design.settings[:1], days=overhead.WARM_UP_DAYS).tasks():
        run_simulation(task.arguments)  # loads the kernels, which is not to be measured
    finished = _carry_out("overhead", design, alone.place)
    timings = pl.read_parquet(alone.place.folder / TIMINGS).to_dicts() if finished.rows else []
    placement = overhead.placement_claims(finished.rows, timings)
    claims = [*overhead.memory_claims(), *overhead.scoring_claims(), *placement]
    figures = {"study": "overhead", "settings": [], "ratios": {}, "counts": counts_as_json(claims)}
    return Report((table_of_claims(claims, "overheads", ""),), figures, finished.failed)


def run_configurations(wanted: Wanted) -> Report:
    """Compare settings of the annealing engine, on regions and tenants of their own."""
    settings = configurations.settings(wanted.base, wanted.densities)
    design = wanted.design_at(
        settings[:1] if wanted.quick else settings,
        configurations.arms(wanted.base),
        repeats=configurations.REPEATS,
        days=configurations.DAYS,
        first_seed=configurations.FIRST_SEED,
    )
    return _of_policies("configurations", design, wanted.place, configurations, "configurations.png")


def run_sensitivity(wanted: Wanted) -> Report:
    """Compare the energies on tenants that differ in one free parameter each, at densities from a pilot."""
    base = sensitivity.with_variants(wanted.base, sensitivity.QUICK if wanted.quick else sensitivity.FREE)
    densities = dict.fromkeys(base.workloads, (base.density,))
    failed: list[tuple[Task, Outcome]] = []
    if not wanted.quick:
        place = attrs.evolve(wanted.place, folder=wanted.place.folder / "pilot")
        found = carry_out("pilot", sensitivity.run_pilot, sensitivity.pilot_tasks(base), place, {"seed": PILOT_SEED})
        densities = {row["workload"]: (row["density"],) for row in found.rows}
        failed += found.failed
    ladder = sensitivity.LADDER
    design = attrs.evolve(wanted, base=base).design_at(
        ladder.settings(base, densities),
        sensitivity.ARMS,
        repeats=sensitivity.REPEATS,
        days=ladder.days,
        engine=ladder.engine,
    )
    report = _of_policies("sensitivity", design, wanted.place, sensitivity, "sensitivity.png", save_ratios)
    return attrs.evolve(report, failed=(*failed, *report.failed))


def run_densities(wanted: Wanted) -> Report:
    """Choose the densities of all studies anew."""
    found = {
        f"{ladder.study}, {ladder.vcores:g} vCores": pilot(wanted.base, ladder, wanted.place) for ladder in LADDERS
    }
    return Report((table_of_densities(found),), {"study": "densities", "densities": found}, ())


def run_peaks(wanted: Wanted) -> Report:
    """Draw the figures of [5]."""
    cells = peaks_report.cells_of(wanted.traces, wanted.base.workloads, quick=wanted.quick, seed=wanted.seed)
    table, figures = peaks_report.carry_out_peaks(cells, wanted.place, wanted.seed)
    return Report((table,), figures, ())


RUN: Mapping[str, Callable[[Wanted], Report]] = {
    "annealing": run_annealing,
    "policies": run_policies,
    "compression": run_compression,
    "overhead": run_overhead,
    "configurations": run_configurations,
    "sensitivity": run_sensitivity,
    "densities": run_densities,
    "peaks": run_peaks,
}
"""The studies by name."""


def pilot(base: Base, ladder: Ladder, place: Place) -> dict[str, list[float]]:
    """Return the densities of each workload that a pilot finds."""
    name = f"densities of {ladder.study}, {ladder.vcores:g} vCores"
    folder = place.folder / f"densities-{ladder.study}-{ladder.vcores:g}"

    def rows_of(design: Design) -> Sequence[Row]:
        density = f"{design.settings[0].density:g}"
        finished = _carry_out(f"{name}: {density}", design, attrs.evolve(place, folder=folder / density))
        for task, outcome in finished.failed:
            if DensityError.__name__ not in outcome.last_line:  # nothing else says that the cluster is full
                raise PlbError(f"the pilot failed: {task.key}: {outcome.last_line}")
        return finished.rows

    return ladder.climb(base, rows_of)


def _of_policies(
    name: str, design: Design, place: Place, study: _OfPolicies, plot: str, save: _Save = save_settings
) -> Report:
    """Make the runs of a study of policies, and draw its plot."""
    finished = _carry_out(name, design, place)
    found = violations_of(design.settings, finished.rows)
    if not all(arm.name in found.counts for arm in design.arms):
        return Report((), {"study": name, "settings": found.as_json(), "ratios": {}}, finished.failed)
    claims, table = study.claims(found), study.table(found)
    save(place.folder / plot, table, f"{name}: violations, {means_of(found.repeats)}")
    arms = _costs(design, finished.rows, study.COMPARED)
    tables = (
        table_of_settings(table, name, found.repeats),
        table_of_claims(claims, f"{name}: ratios"),
        table_of_arms(arms, study.COMPARED, name),
    )
    return Report(tables, as_json(name, found, claims, arms), finished.failed)


def _costs(design: Design, rows: Sequence[Row], compared: str) -> dict[str, ArmFigures]:
    """Return what each arm did beside having violations."""
    totals = [violations_of(design.settings, rows, one) for one in ("failovers", "moves", "downtime_seconds")]
    costs = {}
    for arm in design.arms:
        of_arm = [row for row in rows if row["arm"] == arm.name]
        tenants, refused = (sum(row[total] for row in of_arm) for total in ("tenants", "placement_failures"))
        failovers, moves, downtime = (one.ratio([arm.name], compared) for one in totals)
        costs[arm.name] = ArmFigures(failovers, moves, downtime, refused / tenants)
    return costs


def _carry_out(name: str, design: Design, place: Place) -> Finished:
    return carry_out(name, run_simulation, design.tasks(), place, design.described())
