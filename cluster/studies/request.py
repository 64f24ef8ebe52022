"""What is wanted of a study, and what studies of policies have in common on the way to their reports."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import attrs
from rich.table import Table as RichTable

from cluster.errors import DensityError
from cluster.runs.sweep import Task, TaskOutcome
from cluster.scenario.scenario import MOST_REPEATS
from cluster.scenario.workload_section import MOST_DENSITY
from cluster.studies.arms import NOTHING, Arm
from cluster.studies.base import Base
from cluster.studies.claims import Claim, ClaimTable
from cluster.studies.densities import Ladder, chosen
from cluster.studies.design import MOST_SAMPLES, Design, StudySetting
from cluster.studies.figures import Violations, violations_of
from cluster.studies.plots import save_settings
from cluster.studies.report import (
    ArmFigures,
    as_json,
    means_of,
    table_of_arms,
    table_of_claims,
    table_of_settings,
)
from cluster.studies.runner import Finished, OutputDirectory, Row, run_tasks
from cluster.studies.simulated import run_simulation
from plb import PlbError
from plb.validation import check_count, check_number

QUICK_DAYS = 2.0
Save = Callable[[Path, ClaimTable, str], None]


@attrs.frozen(kw_only=True)
class StudyRequest:
    """What a user asks of a study; None: as the paper has it.

    Parameters
    ----------
    base
        Whose tenants it is about.
    output
        Where it is carried out.
    quick
        A small part of it.
    full, oracle, initial_demand
        Further arms, and more repeats, of the study of policies.
    samples
        Of the study of compression.
    densities, repeats, days
        Of each setting.
    seed
        Of everything.
    """

    base: Base
    output: OutputDirectory
    quick: bool = False
    full: bool = False
    oracle: bool = False
    initial_demand: bool = False
    samples: int | None = None
    densities: Sequence[float] | None = None
    repeats: int | None = None
    days: float | None = None
    seed: int = 0

    def __attrs_post_init__(self) -> None:
        if self.days is not None:
            check_number("study", "days", self.days, low_open=True)
        if self.repeats is not None:
            check_count("study", "repeats", self.repeats, low=1, high=MOST_REPEATS)
        if self.samples is not None:
            check_count("study", "samples", self.samples, low=1, high=MOST_SAMPLES)
        for density in self.densities or ():
            check_number("study", "density", density, low_open=True, high=MOST_DENSITY)

    def settings(self, ladders: Sequence[Ladder]) -> list[StudySetting]:
        """Return the settings: at the densities that are given, or chosen before, or found by a pilot now."""
        found = []
        for ladder in ladders:
            known: Mapping[str, Sequence[float]] | None = chosen(ladder, self.base)
            if self.densities:
                known = dict.fromkeys(self.base.workloads, self.densities)
            elif known is None and self.quick:
                known = dict.fromkeys(self.base.workloads, (self.base.density,))
            elif known is None:
                known = pilot(self.base, ladder, self.output)
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
        of_runs: dict[str, Any] = {"repeats": repeats, "days": days, "quick_days": quick_days}
        of_runs["engine"] = ladders[0].engine
        usual = ladders[0].settings(self.base, dict.fromkeys(self.base.workloads, (self.base.density,)))
        self.design_at(usual, arms, **of_runs)  # refuses what no density changes, before a pilot takes its time
        return self.design_at(self.settings(ladders), arms, **of_runs)

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
class StudyReport:
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
    failed: Sequence[tuple[Task, TaskOutcome]]


class OfPolicies(Protocol):
    """What a study of policies says of itself: a module such as `annealing`."""

    COMPARED: str
    """The arm that failovers are compared with."""

    def claims(self, found: Violations) -> list[Claim]:
        """Return what a paper reports beside what was found."""
        ...

    def table(self, found: Violations) -> ClaimTable:
        """Return mean violations by setting."""
        ...


def pilot(base: Base, ladder: Ladder, output: OutputDirectory) -> dict[str, list[float]]:
    """Return the densities of each workload that a pilot finds."""
    name = f"densities of {ladder.study}, {ladder.vcores:g} vCores"
    folder = output.folder / f"densities-{ladder.study}-{ladder.vcores:g}"

    def rows_of(design: Design) -> Sequence[Row]:
        density = f"{design.settings[0].density:g}"
        finished = run_simulations(f"{name}: {density}", design, attrs.evolve(output, folder=folder / density))
        for task, outcome in finished.failed:
            if outcome.kind != DensityError.__name__:
                raise PlbError(f"the pilot failed: {task.key}: {outcome.last_line}")
        return finished.rows

    return ladder.climb(base, rows_of)


def of_policies(
    name: str, design: Design, output: OutputDirectory, study: OfPolicies, plot: str, save: Save = save_settings
) -> StudyReport:
    """Make the runs of a study of policies, and draw its plot."""
    finished = run_simulations(name, design, output)
    found = violations_of(design.settings, finished.rows)
    if not all(arm.name in found.counts for arm in design.arms):
        (output.folder / plot).unlink(missing_ok=True)
        return StudyReport((), as_json(name, found, (), {}), finished.failed)
    claims, table = study.claims(found), study.table(found)
    save(output.folder / plot, table, f"{name}: violations, {means_of(found.repeats)}")
    arms = _costs(design, finished.rows, study.COMPARED)
    tables = (
        table_of_settings(table, name, found.repeats),
        table_of_claims(claims, f"{name}: ratios"),
        table_of_arms(arms, study.COMPARED, name),
    )
    return StudyReport(tables, as_json(name, found, claims, arms), finished.failed)


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


def run_simulations(name: str, design: Design, output: OutputDirectory) -> Finished:
    """Make the runs of a design."""
    return run_tasks(name, run_simulation, design.tasks(), output, design.described())
