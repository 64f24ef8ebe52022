"""``plb simulate``: run a scenario under its policies, and print a table that compares them."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from cluster.cli.options import Quiet
from cluster.console.output import clear_errors, messages, output, progress

if TYPE_CHECKING:
    from cluster.results.writing import ResultsFolder
    from cluster.runs.experiment import Experiment
    from cluster.scenario.scenario import Scenario
    from cluster.simulation.recorder import RunResult


@clear_errors
def simulate_command(
    scenario: Annotated[Path, Argument(help="The scenario, a TOML file.")],
    policy: Annotated[
        list[str] | None, Option(help="Policy to run. Can be repeated. Default: those of the scenario.")
    ] = None,
    seed: Annotated[int | None, Option(help="Seed, instead of that of the scenario.")] = None,
    repeats: Annotated[int | None, Option(help="Runs of each policy, each with its own tenants.")] = None,
    density: Annotated[float | None, Option(help="Tenant density, instead of that of the scenario.")] = None,
    days: Annotated[float | None, Option(help="Simulated days, instead of those of the scenario.")] = None,
    out: Annotated[Path | None, Option(help="Directory for tables, summary and plots. Default: results/NAME.")] = None,
    force: Annotated[bool, Option("--force", help="Overwrite results in the directory.")] = False,
    traces: Annotated[Path | None, Option(help="Directory of the traces, instead of that of the scenario.")] = None,
    json: Annotated[Path | None, Option(help="Write the figures of the summary table to this file.")] = None,
    jobs: Annotated[int, Option(min=1, help="Processes. The results do not depend on it.")] = 1,
    quiet: Quiet = False,
) -> None:
    """Run a scenario under its policies, and compare them.

    All policies have the same tenants. The directory has the Parquet tables of each run, summary.json, timings.json,
    columns.json and plots. After Ctrl-C the results so far are kept.
    """
    from cluster.results.writing import ResultsFolder, check_free, check_outputs, files_of_results
    from cluster.runs.experiment import prepare
    from cluster.scenario.scenario_file import inputs_of, override, read_scenario

    chosen = override(
        read_scenario(scenario), policy=policy, seed=seed, repeats=repeats, density=density, days=days, traces=traces
    )
    folder = out or Path("results") / chosen.name
    check_free(folder, force=force)
    check_outputs([scenario, *inputs_of(chosen), *files_of_results(folder)], [], json)
    with messages(quiet=quiet).status("Reading the workload and sampling the tenants ..."):
        experiment = prepare(chosen)
    results = ResultsFolder(folder, chosen, experiment.source, force=force)
    runs, interrupted = _run(experiment, results, jobs, quiet)
    begun = any(run.totals["simulated_seconds"] for run in runs)
    if begun:
        _close(chosen, experiment, runs, folder, json, quiet=quiet)
    if interrupted:
        what = "the results so far are in" if begun else "there are no results yet; see"
        raise KeyboardInterrupt(f"{what} {folder}")


def _run(experiment: Experiment, results: ResultsFolder, jobs: int, quiet: bool) -> tuple[list[RunResult], bool]:
    """Run everything with a progress bar; return the runs, and whether Ctrl-C ended them."""
    from rich.progress import TaskProgressColumn, TimeElapsedColumn

    days = experiment.scenario.run.days
    runs: list[RunResult] = []
    try:
        with progress(TaskProgressColumn(), TimeElapsedColumn(), quiet=quiet) as bar:
            label = {pair: f"{pair[0]}, repeat {pair[1] + 1}" for pair in experiment.pairs}
            tasks = {pair: bar.add_task(name, total=days, start=False) for pair, name in label.items()}

            def report(policy: str, repeat: int, seconds: float) -> None:
                bar.start_task(tasks[policy, repeat])
                bar.update(tasks[policy, repeat], completed=seconds / 86400.0)

            for run in experiment.runs(jobs=jobs, progress=report):
                results.add(run)
                runs.append(run)
                report(run.policy, run.repeat, float(run.totals["simulated_seconds"]))
                bar.stop_task(tasks[run.policy, run.repeat])
    except KeyboardInterrupt:
        return runs, True
    return runs, len(runs) < len(experiment.pairs) or not all(run.complete for run in runs)


def _close(
    scenario: Scenario, experiment: Experiment, runs: list[RunResult], folder: Path, json: Path | None, *, quiet: bool
) -> None:
    """Compare the runs: the table, the figures as JSON, the plots."""
    from cluster.results.policy_comparison import compare
    from cluster.results.reading import read_results
    from cluster.results.saved_plots import save_plots
    from cluster.results.summary_tables import comparison_table, outage_table
    from cluster.results.writing import stamped, write_json

    results = read_results(folder)
    comparison = compare(runs, scenario.run.policies)
    if json is not None:
        write_json(json, stamped(comparison.as_json(), scenario.digest(), scenario.run.seed))
    save_plots(results)
    console = output(quiet=quiet)
    console.print(comparison_table(comparison, _title(scenario, experiment), _cut_short(runs)))
    if scenario.faults.is_any or scenario.upgrades.is_any:
        console.print(outage_table(runs, comparison.policies))
    console.print(f"Tables, summary and plots: {folder}", soft_wrap=True)
    console.print(f"To make a report: plb report {shlex.quote(str(folder))}", soft_wrap=True)


def _title(scenario: Scenario, experiment: Experiment) -> str:
    tenants = sum(len(sequence.arrival) for sequence in experiment.sequences) / len(experiment.sequences)
    if scenario.workload.kind == "plan":
        packed = "a plan"
    elif scenario.workload.arrivals == "recorded":
        packed = "recorded arrivals"
    else:
        packed = f"density {scenario.workload.density:g}"
    return (
        f"{scenario.name}: {scenario.cluster.nodes} nodes, {packed}, "
        f"{scenario.run.days:g} days, {tenants:,.0f} tenants, seed {scenario.run.seed}"
    )


def _cut_short(runs: list[RunResult]) -> str:
    """Return which runs are incomplete: their figures cannot be compared with those of complete runs."""
    cut = [f"{run.policy}, repeat {run.repeat + 1} covers {run.days:.2f} days only" for run in runs if not run.complete]
    return "; ".join(cut)
