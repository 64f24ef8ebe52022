"""Each study from what is wanted to its report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import attrs
import polars as pl

from cluster.runs.sweep import Task, TaskOutcome
from cluster.studies import annealing, compression, configurations, overhead, policies, sensitivity
from cluster.studies.densities import LADDERS, PILOT_SEED
from cluster.studies.design import Design
from cluster.studies.figures import figures_of, violations_of
from cluster.studies.plots import save_effects, save_ratios
from cluster.studies.report import (
    counts_as_json,
    effects_as_json,
    table_of_claims,
    table_of_densities,
    table_of_effects,
)
from cluster.studies.request import StudyReport, StudyRequest, of_policies, pilot
from cluster.studies.risk_running import run_risk
from cluster.studies.runner import TIMINGS, run_tasks


def run_annealing(request: StudyRequest) -> StudyReport:
    """Make the runs of figure 8."""
    arms = annealing.QUICK_ARMS if request.quick else annealing.ARMS
    design = request.design(LADDERS[:1], arms, repeats=annealing.REPEATS, days=annealing.DAYS)
    return of_policies("annealing", design, request.output, annealing, "figure8.png")


def run_policies(request: StudyRequest) -> StudyReport:
    """Make the runs of figure 9; a cluster of the user's own has one kind of hardware."""
    ladders = LADDERS[1:] if request.base.is_of_regions else LADDERS[1:2]
    arms = policies.arms(oracle=request.oracle or request.full, initial_demand=request.initial_demand or request.full)
    repeats = policies.REPEATS if request.full else policies.CORE_REPEATS
    design = request.design(ladders, arms, repeats=repeats, days=policies.DAYS)
    return of_policies("policies", design, request.output, policies, "figure9.png")


def run_compression(request: StudyRequest) -> StudyReport:
    """Draw the samples of figure 7."""
    samples = request.samples or (compression.QUICK_SAMPLES if request.quick else compression.SAMPLES)
    tasks = compression.tasks(request.base, samples, request.seed)
    finished = run_tasks("compression", compression.run_compression, tasks, request.output, {"seed": request.seed})
    plot = request.output.folder / "figure7.png"
    if not finished.rows:
        plot.unlink(missing_ok=True)
        return StudyReport((), effects_as_json(()), finished.failed)
    found = compression.effects(finished.rows)
    save_effects(plot, found)
    return StudyReport((table_of_effects(found),), effects_as_json(found), finished.failed)


def run_overhead(request: StudyRequest) -> StudyReport:
    """Measure what section 8.5 measures, one run after the other, so that times mean something."""
    base = attrs.evolve(request.base, workloads=request.base.workloads[:1])
    alone = attrs.evolve(request, base=base, output=attrs.evolve(request.output, jobs=1))
    design = alone.design(LADDERS[1:2], overhead.ARMS, repeats=1, days=overhead.DAYS, quick_days=overhead.QUICK_DAYS)
    finished = run_tasks("overhead", overhead.run_measured, design.tasks(), alone.output, design.described())
    timings = pl.read_parquet(alone.output.folder / TIMINGS, glob=False).to_dicts() if finished.rows else []
    placement = overhead.placement_claims(finished.rows, timings)
    claims = [*overhead.memory_claims(), *overhead.scoring_claims(), *placement]
    found = violations_of(design.settings, finished.rows)
    figures = figures_of("overhead", found.as_json(), counts=counts_as_json(claims))
    return StudyReport((table_of_claims(claims, "overheads", ""),), figures, finished.failed)


def run_configurations(request: StudyRequest) -> StudyReport:
    """Compare settings of the annealing engine, on regions and tenants of their own."""
    settings = configurations.settings(request.base, request.densities)
    design = request.design_at(
        settings[:1] if request.quick else settings,
        configurations.arms(request.base),
        repeats=configurations.REPEATS,
        days=configurations.DAYS,
        first_seed=configurations.FIRST_SEED,
    )
    return of_policies("configurations", design, request.output, configurations, "configurations.png")


def run_sensitivity(request: StudyRequest) -> StudyReport:
    """Compare the energies on tenants that differ in one free parameter each, at densities from a pilot."""
    base = sensitivity.with_variants(request.base, sensitivity.QUICK if request.quick else sensitivity.FREE)
    ladder = sensitivity.LADDER

    def design_at(densities: Mapping[str, Sequence[float]]) -> Design:
        return attrs.evolve(request, base=base).design_at(
            ladder.settings(base, densities),
            sensitivity.ARMS,
            repeats=sensitivity.REPEATS,
            days=ladder.days,
            engine=ladder.engine,
        )

    design = design_at(dict.fromkeys(base.workloads, (base.density,)))
    failed: list[tuple[Task, TaskOutcome]] = []
    if not request.quick:
        output = attrs.evolve(request.output, folder=request.output.folder / "pilot")
        found = run_tasks("pilot", sensitivity.run_pilot, sensitivity.pilot_tasks(base), output, {"seed": PILOT_SEED})
        design = design_at({row["workload"]: (row["density"],) for row in found.rows})
        failed += found.failed
    report = of_policies("sensitivity", design, request.output, sensitivity, "sensitivity.png", save_ratios)
    return attrs.evolve(report, failed=(*failed, *report.failed))


def run_densities(request: StudyRequest) -> StudyReport:
    """Choose the densities of all studies anew."""
    found = {
        f"{ladder.study}, {ladder.vcores:g} vCores": pilot(request.base, ladder, request.output) for ladder in LADDERS
    }
    return StudyReport((table_of_densities(found),), figures_of("densities", densities=found), ())


RUN: Mapping[str, Callable[[StudyRequest], StudyReport]] = {
    "annealing": run_annealing,
    "policies": run_policies,
    "compression": run_compression,
    "overhead": run_overhead,
    "configurations": run_configurations,
    "sensitivity": run_sensitivity,
    "risk": run_risk,
    "densities": run_densities,
}
"""The studies by name."""
