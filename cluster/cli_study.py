"""``plb study``: the experiments of paper 1, with its figures beside ours."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import attrs
import typer

from cluster.console import FAILED, clear_errors, output

if TYPE_CHECKING:
    from cluster.studies.arms import Arm
    from cluster.studies.base import Base
    from cluster.studies.carrying_out import Finished, Place, Row
    from cluster.studies.claims import Claim, Table
    from cluster.studies.densities import Ladder
    from cluster.studies.design import Design
    from cluster.studies.figures import Violations

study_app = typer.Typer(help="Repeat the experiments of König et al., PVLDB 2022.", no_args_is_help=True)

Out = Annotated[Path | None, typer.Option(help="Directory of the results. Default: results/study-NAME.")]
Jobs = Annotated[
    int | None, typer.Option(min=1, help="Processes; the results are the same for any number. Default: one a core.")
]
Scheduler = Annotated[
    str | None, typer.Option(help="Address of a Dask scheduler whose workers make the runs, tcp://HOST:PORT.")
]
Region = Annotated[list[str] | None, typer.Option(help="Synthetic region; may be given again. Default: all four.")]
ScenarioFile = Annotated[
    Path | None, typer.Option(help="Scenario file whose cluster and tenants are used instead of the regions.")
]
Traces = Annotated[Path | None, typer.Option(help="Directory of the traces, instead of that in the scenario file.")]
Density = Annotated[
    list[float] | None, typer.Option(help="Tenant density; may be given again. Default: chosen by `densities`.")
]
Repeats = Annotated[int | None, typer.Option(min=1, help="Runs of everything, each with tenants of its own.")]
Days = Annotated[float | None, typer.Option(help="Simulated days of a run.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of the tenants and of all else.")]
Quick = Annotated[bool, typer.Option("--quick", help="A small part, in minutes.")]
Restart = Annotated[bool, typer.Option("--restart", help="Make finished runs in the directory again.")]
Json = Annotated[Path | None, typer.Option(help="Write the figures to this file.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")]


@study_app.command("annealing")
@clear_errors
def annealing_command(
    quick: Quick = False,
    region: Region = None,
    scenario: ScenarioFile = None,
    traces: Traces = None,
    density: Density = None,
    repeats: Repeats = None,
    days: Days = None,
    seed: Seed = 0,
    out: Out = None,
    jobs: Jobs = None,
    scheduler: Scheduler = None,
    restart: Restart = False,
    json: Json = None,
    quiet: Quiet = False,
) -> None:
    """Figure 8: the annealing engine with its original and its modified energy.

    Beside them the original with other percentiles of initial demand, and with an oracle. What is finished is kept:
    the same command goes on after an interruption.
    """
    from cluster.studies import annealing
    from cluster.studies.densities import LADDERS

    base = _base(region, scenario, traces, quick)
    place = _place("annealing", out, jobs, scheduler, restart, quiet, json)
    arms = annealing.QUICK_ARMS if quick else annealing.ARMS
    settings = _settings(base, [LADDERS[0]], density, place, quick)
    design = base.design(
        settings,
        arms,
        days=days or (2.0 if quick else annealing.DAYS),
        repeats=repeats or (1 if quick else annealing.REPEATS),
        seed=seed,
        engine=base.engine,
    )
    _policies_study("annealing", design, place, json, annealing, "figure8.png", quiet)


@study_app.command("policies")
@clear_errors
def policies_command(
    quick: Quick = False,
    full: Annotated[
        bool, typer.Option("--full", help="All variants, 20 repeats: a night. Otherwise the core, 5 repeats.")
    ] = False,
    oracle: Annotated[bool, typer.Option("--oracle", help="Also policies with an oracle.")] = False,
    initial_demand: Annotated[
        bool, typer.Option("--initial-demand", help="Also policies under other percentiles of initial demand.")
    ] = False,
    region: Region = None,
    scenario: ScenarioFile = None,
    traces: Traces = None,
    density: Density = None,
    repeats: Repeats = None,
    days: Days = None,
    seed: Seed = 0,
    out: Out = None,
    jobs: Jobs = None,
    scheduler: Scheduler = None,
    restart: Restart = False,
    json: Json = None,
    quiet: Quiet = False,
) -> None:
    """Figure 9: placement one replica at a time, with violation probabilities and without, on two kinds of nodes.

    Fault and upgrade domains are not enforced, as in the paper.
    """
    from cluster.studies import policies
    from cluster.studies.densities import LADDERS

    base = _base(region, scenario, traces, quick)
    place = _place("policies", out, jobs, scheduler, restart, quiet, json)
    ladders = LADDERS[1:2] if scenario is not None else LADDERS[1:]
    design = base.design(
        _settings(base, ladders, density, place, quick),
        policies.arms(oracle=oracle or full, initial_demand=initial_demand or full),
        days=days or (2.0 if quick else policies.DAYS),
        repeats=repeats or (1 if quick else policies.REPEATS if full else policies.CORE_REPEATS),
        seed=seed,
        engine={**base.engine, **LADDERS[1].engine},
    )
    _policies_study("policies", design, place, json, policies, "figure9.png", quiet)


@study_app.command("compression")
@clear_errors
def compression_command(
    quick: Quick = False,
    region: Region = None,
    scenario: ScenarioFile = None,
    traces: Traces = None,
    samples: Annotated[int | None, typer.Option(min=1, help="Draws for each number of tenants.")] = None,
    seed: Seed = 0,
    out: Out = None,
    jobs: Jobs = None,
    scheduler: Scheduler = None,
    restart: Restart = False,
    json: Json = None,
    quiet: Quiet = False,
) -> None:
    """Figure 7: the probability of a violation by full traces, and by the models they are compressed to."""
    from cluster.results import write_json
    from cluster.studies import compression
    from cluster.studies.carrying_out import carry_out
    from cluster.studies.plots import save_effects
    from cluster.studies.report import table_of_effects

    base = _base(region, scenario, traces, quick)
    place = _place("compression", out, jobs, scheduler, restart, quiet, json)
    tasks = compression.tasks(base, samples or (compression.QUICK_SAMPLES if quick else compression.SAMPLES), seed)
    finished = carry_out("compression", compression.run_compression, tasks, place, {"seed": seed})
    if finished.rows:
        found = compression.effects(finished.rows)
        save_effects(place.folder / "figure7.png", found)
        output(quiet=quiet).print(table_of_effects(found))
        if json is not None:
            settings = [{**attrs.asdict(one), "violations": {}} for one in found]
            write_json(json, {"study": "compression", "settings": settings, "ratios": {}})
    _close(finished, place, quiet)


@study_app.command("overhead")
@clear_errors
def overhead_command(
    quick: Quick = False,
    region: Region = None,
    density: Density = None,
    days: Days = None,
    seed: Seed = 0,
    out: Out = None,
    restart: Restart = False,
    json: Json = None,
    quiet: Quiet = False,
) -> None:
    """Section 8.5: what violation probabilities cost in memory and time, one run after the other."""
    from cluster.results import write_json
    from cluster.studies import overhead
    from cluster.studies.carrying_out import TIMINGS, carry_out
    from cluster.studies.densities import LADDERS
    from cluster.studies.report import counts_as_json, table_of_claims
    from cluster.studies.simulated import run_simulation

    base = _base(region or ["region1"], None, None, quick)
    place = _place("overhead", out, 1, None, restart, quiet, json)
    design = base.design(
        _settings(base, LADDERS[1:2], density, place, quick),
        overhead.ARMS,
        days=days or (overhead.QUICK_DAYS if quick else overhead.DAYS),
        repeats=1,
        seed=seed,
        engine={**base.engine, **LADDERS[1].engine},
    )
    finished = carry_out("overhead", run_simulation, design.tasks(), place, _described(design))
    import polars as pl

    timings = pl.read_parquet(place.folder / TIMINGS).to_dicts() if finished.rows else []
    claims = [
        *overhead.memory_claims(),
        *overhead.scoring_claims(),
        *overhead.placement_claims(finished.rows, timings),
    ]
    output(quiet=quiet).print(table_of_claims(claims, "overheads, [1] section 8.5"))
    if json is not None:
        write_json(json, {"study": "overhead", "settings": [], "ratios": {}, "counts": counts_as_json(claims)})
    _close(finished, place, quiet)


@study_app.command("densities")
@clear_errors
def densities_command(
    region: Region = None,
    out: Out = None,
    jobs: Jobs = None,
    scheduler: Scheduler = None,
    restart: Restart = False,
    json: Json = None,
    quiet: Quiet = False,
) -> None:
    """Choose the densities of the studies anew, by what the original energy does at a ladder of densities."""
    from cluster.results import write_json
    from cluster.studies.densities import LADDERS

    base = _base(region, None, None, False)
    place = _place("densities", out, jobs, scheduler, restart, quiet, json)
    found = {f"{ladder.study}, {ladder.vcores:g} vCores": _pilot(base, ladder, place) for ladder in LADDERS}
    console = output(quiet=quiet)
    for name, densities in found.items():
        for workload, chosen in densities.items():
            console.print(f"{name}, {workload}: {', '.join(f'{one:g}' for one in chosen)}", highlight=False)
    if json is not None:
        write_json(json, {"densities": found})


# what the commands share


def _base(region: list[str] | None, scenario: Path | None, traces: Path | None, quick: bool) -> Base:
    from cluster.studies.base import HISTORY_TENANTS, QUICK_HISTORY_TENANTS, of_scenario, regions

    if scenario is not None:
        return of_scenario(scenario, traces)
    if traces is not None:
        raise typer.BadParameter("needs --scenario, which says what the nodes are", param_hint="--traces")
    return regions(region or (), QUICK_HISTORY_TENANTS if quick else HISTORY_TENANTS)


def _place(
    name: str,
    out: Path | None,
    jobs: int | None,
    scheduler: str | None,
    restart: bool,
    quiet: bool,
    json: Path | None,
) -> Place:
    from cluster.results import check_file
    from cluster.studies.carrying_out import Place

    check_file(json)
    return Place(out or Path("results") / f"study-{name}", jobs, scheduler, restart, quiet)


def _settings(
    base: Base, ladders: tuple[Ladder, ...] | list[Ladder], density: list[float] | None, place: Place, quick: bool
) -> list[Any]:
    """Return the settings of a study: at the densities that are given, or chosen before, or by a pilot now."""
    from cluster.studies.densities import chosen
    from cluster.studies.design import Setting

    found = []
    for ladder in ladders:
        known = dict.fromkeys(base.workloads, density) if density else chosen(ladder, base)
        if known is None:
            known = _pilot(base, ladder, place)
        for name in base.workloads:
            densities = known[name]
            middle = len(densities) // 2
            found += [Setting(name, ladder.vcores, one) for one in ([densities[middle]] if quick else densities)]
    return found


def _pilot(base: Base, ladder: Ladder, place: Place) -> dict[str, list[float]]:
    from cluster.studies.carrying_out import carry_out
    from cluster.studies.simulated import run_simulation

    name = f"densities of {ladder.study}, {ladder.vcores:g} vCores"
    folder = place.folder / f"densities-{ladder.study}-{ladder.vcores:g}"

    def rows_of(design: Design) -> Sequence[Row]:
        density = design.settings[0].density
        here = attrs.evolve(place, folder=folder / f"{density:g}")
        return carry_out(f"{name}: {density:g}", run_simulation, design.tasks(), here, _described(design)).rows

    return ladder.climb(base, rows_of)


def _policies_study(
    name: str, design: Design, place: Place, json: Path | None, study: Any, plot: str, quiet: bool
) -> None:
    """Run a study of policies and end in its tables, its figures and its plot."""
    from cluster.results import write_json
    from cluster.studies.carrying_out import carry_out
    from cluster.studies.figures import violations_of
    from cluster.studies.plots import save_settings
    from cluster.studies.report import as_json, table_of_claims, table_of_settings
    from cluster.studies.simulated import run_simulation

    finished = carry_out(name, run_simulation, design.tasks(), place, _described(design))
    found: Violations = violations_of(design.settings, finished.rows)
    if found.settings:
        claims: list[Claim] = study.claims(found)
        table: Table = study.table(found)
        save_settings(place.folder / plot, table, f"{name}: violations, mean of {found.repeats} repeats")
        console = output(quiet=quiet)
        console.print(table_of_settings(table, name, found.repeats))
        console.print(table_of_claims(claims, f"{name}, beside [1]"))
        if json is not None:
            write_json(json, as_json(name, found, claims))
    _close(finished, place, quiet)


def _described(design: Design) -> dict[str, Any]:
    """Return what ``study.json`` says of a design."""
    arms: tuple[Arm, ...] = design.arms
    return {
        "settings": [attrs.asdict(setting) for setting in design.settings],
        "arms": [
            {"name": arm.name, "policy": arm.policy, "workload": dict(arm.workload), "engine": dict(arm.engine)}
            for arm in arms
        ],
        "repeats": design.repeats,
        "days": design.days,
        "seed": design.seed,
        "regions": _region_digests(design),
    }


def _region_digests(design: Design) -> dict[str, str]:
    from workloads.regions import REGIONS

    names = dict.fromkeys(setting.workload for setting in design.settings)
    return {name: REGIONS[name].digest() for name in names if name in REGIONS}


def _close(finished: Finished, place: Place, quiet: bool) -> None:
    """Say where the results are; exit with an error where runs failed."""
    from cluster.studies.carrying_out import FAILURES

    output(quiet=quiet).print(f"Runs, timings and plots: {place.folder}", highlight=False)
    if finished.failed:
        first, outcome = finished.failed[0]
        last_line = (outcome.error or "").strip().splitlines()[-1]
        typer.echo(
            f"plb: {len(finished.failed)} runs failed, the first: {first.key}: {last_line}; see "
            f"{place.folder / FAILURES}. The same command tries them again.",
            err=True,
        )
        raise typer.Exit(FAILED)
