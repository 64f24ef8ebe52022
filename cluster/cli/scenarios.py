"""``plb simulate``, ``report``, ``compare``, ``explain`` and ``capacity``: runs of scenarios and their results."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from cluster.cli.options import Jobs, Json, PlotsFormat, Quiet, RunDays, RunSeed, ScenarioFile, Traces
from cluster.console import clear_errors, messages, output, progress
from cluster.plots.formats import PlotFormat, plots_as

if TYPE_CHECKING:
    from cluster.capacity.running import CapacitySearch
    from cluster.explanation.explanation import Explanation
    from cluster.results.writing import ResultsFolder
    from cluster.runs.experiment import Experiment
    from cluster.scenario.scenario import Scenario
    from cluster.simulation.recorder import RunResult


@clear_errors
def simulate_command(
    scenario: ScenarioFile,
    policy: Annotated[
        list[str] | None, Option(help="Policy to run. Can be repeated. Default: as in the scenario.")
    ] = None,
    seed: RunSeed = None,
    repeats: Annotated[int | None, Option(help="Runs of each policy, each with its own tenants.")] = None,
    density: Annotated[float | None, Option(help="Tenant density. Default: as in the scenario.")] = None,
    days: RunDays = None,
    out: Annotated[Path | None, Option(help="Directory for tables, summary and plots. Default: results/NAME.")] = None,
    force: Annotated[bool, Option("--force", help="Overwrite results in the directory.")] = False,
    traces: Traces = None,
    json: Annotated[
        Path | None, Option(help="Write the figures of the summary table to this file; - is standard output.")
    ] = None,
    jobs: Annotated[int, Option(min=1, help="Processes. The results do not depend on it.")] = 1,
    engine: Annotated[
        str | None,
        Option(help="Service whose engines place the tenants: tcp://HOST:PORT or unix:///PATH of plb serve --lines."),
    ] = None,
    plot_format: PlotsFormat = PlotFormat.PNG,
    quiet: Quiet = False,
) -> None:
    """Run a scenario under its policies, and compare them.

    All policies have the same tenants. The directory has the Parquet tables of each run, summary.json, timings.json,
    columns.json and plots. After Ctrl-C the results so far are kept.
    """
    with messages(quiet=quiet).status("Loading plb ...") as status:  # the first import takes seconds
        from cluster.results.writing import ResultsFolder, check_free, check_outputs, files_of_results
        from cluster.runs.experiment import prepare
        from cluster.scenario.scenario_file import inputs_of, override, read_scenario

        changes = {"policy": policy, "seed": seed, "repeats": repeats, "density": density, "days": days}
        run_scenario = override(read_scenario(scenario), **changes, traces=traces)
        folder = out or Path("results") / run_scenario.name
        check_free(folder, force=force)
        check_outputs([scenario, *inputs_of(run_scenario), *files_of_results(folder)], [], json)
        status.update("Reading the workload and sampling the tenants ...")
        experiment = prepare(run_scenario)
    if engine is not None:
        from cluster.service.remote_engine import served

        experiment = served(experiment, engine)
    results = ResultsFolder(folder, run_scenario, experiment.source, force=force)
    runs, interrupted = _run(experiment, results, jobs, quiet)
    has_begun = any(run.totals["simulated_seconds"] for run in runs)
    if has_begun:
        with plots_as(plot_format):
            _close(run_scenario, experiment, runs, folder, json, quiet=quiet)
    if interrupted:
        where = "the results so far are in" if has_begun else "there are no results yet; see"
        raise KeyboardInterrupt(f"{where} {folder}")


def _run(experiment: Experiment, results: ResultsFolder, jobs: int, quiet: bool) -> tuple[list[RunResult], bool]:
    """Run everything in `jobs` processes with a progress bar, and add each run to the results.

    Return the runs, and whether Ctrl-C ended them.
    """
    from rich.progress import TaskProgressColumn, TimeElapsedColumn

    days = experiment.scenario.run.days
    runs: list[RunResult] = []
    try:
        with progress(TaskProgressColumn(), TimeElapsedColumn(), quiet=quiet) as bar:
            labels = {pair: f"{pair[0]}, repeat {pair[1] + 1}" for pair in experiment.pairs}
            tasks = {pair: bar.add_task(name, total=days, start=False) for pair, name in labels.items()}

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
    """Print the comparison of the runs, write its figures to `json`, and draw plots into the results directory."""
    from cluster.results.reading import read_results
    from cluster.results.summary_tables import compare, comparison_table, outage_table, save_plots
    from cluster.results.writing import write_figures

    results = read_results(folder)
    comparison = compare(runs, scenario.run.policies)
    write_figures(json, comparison.as_json(), scenario.digest(), scenario.run.seed)
    save_plots(results)
    console = output(quiet=quiet)
    console.print(comparison_table(comparison, _title(scenario, experiment), _cut_short(runs)))
    if scenario.faults.is_any or scenario.upgrades.is_any:
        console.print(outage_table(runs, comparison.policies))
    console.print(f"Tables, summary and plots: {folder}", soft_wrap=True)
    console.print(f"To make a report: plb report {shlex.quote(str(folder))}", soft_wrap=True)


def _title(scenario: Scenario, experiment: Experiment) -> str:
    """Return the title of the comparison: scenario, nodes, tenants and seed."""
    tenants = sum(len(sequence.arrival) for sequence in experiment.sequences) / len(experiment.sequences)
    if scenario.workload.kind == "plan":
        arrivals = "a plan"
    elif scenario.workload.arrivals == "recorded":
        arrivals = "recorded arrivals"
    else:
        arrivals = f"density {scenario.workload.density:g}"
    return (
        f"{scenario.name}: {scenario.cluster.nodes} nodes, {arrivals}, "
        f"{scenario.run.days:g} days, {tenants:,.0f} tenants, seed {scenario.run.seed}"
    )


def _cut_short(runs: list[RunResult]) -> str:
    """Return in words which runs are incomplete, as their figures cannot be compared with complete runs."""
    incomplete = [
        f"{run.policy}, repeat {run.repeat + 1} covers {run.days:.2f} days only" for run in runs if not run.complete
    ]
    return "; ".join(incomplete)


@clear_errors
def report_command(
    results: Annotated[Path, Argument(metavar="DIR", help="Results directory of plb simulate.")],
    out: Annotated[Path | None, Option(help="File to write; - is standard output. Default: DIR/report.html.")] = None,
    force: Annotated[bool, Option("--force", help="Overwrite the file.")] = False,
    quiet: Quiet = False,
) -> None:
    """Write a page on a run: policies compared, violations, loads, energies, availability, every move and its reason.

    The page is one file that needs no network: open it in any browser, or send it to somebody.
    """
    from cluster.report.writing import report_page
    from cluster.results.reading import read_results
    from cluster.results.writing import REPORT, check_outputs, files_of_results, write_text

    path = out or results / REPORT
    run_results = read_results(results)
    check_outputs(files_of_results(results), [path], None, force=force)
    with messages(quiet=quiet).status("Drawing and writing ..."):
        write_text(path, report_page(run_results))
    output(quiet=quiet).print(f"Report: {path}", soft_wrap=True)


@clear_errors
def compare_command(
    folder: Annotated[list[Path], Argument(metavar="DIR...", help="Results directories.")],
    figure: Annotated[
        list[str] | None,
        Option(
            help="Figure to show: violations, violations_avoidable, violations_unavoidable, shortages_unresolved, "
            "failovers, moves, placement_failures, downtime_seconds, wall_seconds or extension_terms.NAME; can be "
            "repeated. Ratios are of the first. Default: the figures in the closing table of plb simulate."
        ),
    ] = None,
    json: Json = None,
    quiet: Quiet = False,
) -> None:
    """Compare the results of several scenarios or policies.

    All are compared with the first policy of the first directory, and repeat by repeat if the tenants are the same. The
    differences between the scenarios are listed.
    """
    from cluster.results.comparison import compare_results, lines, table_of_differences, table_of_rows
    from cluster.results.reading import read_results
    from cluster.results.summary_tables import FIGURES, SHOWN
    from cluster.results.writing import check_outputs, files_of_results, write_figures
    from plb.validation import check_known

    check_outputs([file for directory in folder for file in files_of_results(directory)], [], json)
    comparison = compare_results([read_results(directory) for directory in folder])
    figures = list(dict.fromkeys(figure or (*SHOWN, *comparison.extension_figures)))
    for name in figures:
        check_known("figure", name, (*FIGURES, *comparison.extension_figures), "--figure")
    write_figures(json, comparison.as_json(), *comparison.origin)
    console = output(quiet=quiet)
    console.print(table_of_rows(comparison, figures))
    differences = table_of_differences(comparison, figures)
    if differences is not None:
        console.print(differences)
    for line in lines(comparison):
        console.print(line, soft_wrap=True)


@clear_errors
def explain_command(
    results: Annotated[Path, Argument(metavar="DIR", help="The results directory of plb simulate.")],
    partition: Annotated[str, Option(help="The tenant: a name from the column `tenant` of the tables.")],
    time: Annotated[
        str, Option(help="Time since the start: seconds, 3d, 2d4h30m or 36h. Includes all events at this time.")
    ],
    policy: Annotated[str | None, Option(help="Policy of the run. Default: the first of the scenario.")] = None,
    repeat: Annotated[int, Option(min=1, help="Repeat of the run, from 1. Tables count from 0.")] = 1,
    best: Annotated[int, Option(min=1, help="Number of other nodes to show, the best or nearest ones.")] = 5,
    scenario: Annotated[
        Path | None, Option(help="Scenario file; required if it names other files, or if the traces have moved.")
    ] = None,
    traces: Annotated[Path | None, Option(help="Directory of the traces, if they have moved.")] = None,
    json: Annotated[
        Path | None, Option(help="Write all data of the explanation to this file; `repeat` counts from 0.")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Explain why the replicas of a tenant were on their nodes, or were not placed, and what would have to change.

    The run is simulated again up to the time, which takes at most as long as before, and compared with the tables. For
    every node, the explanation has the rule that excludes it, or the energy with the replica on it.
    """
    from cluster.explanation.explanation import question
    from cluster.explanation.output import as_json, render
    from cluster.results.recorded_run import read_run
    from cluster.results.writing import check_outputs, files_of_results, write_figures
    from cluster.scenario.scenario_file import inputs_of, read_scenario
    from cluster.scenario.times import seconds_of

    seconds = seconds_of(time)
    present_scenario = None if scenario is None else read_scenario(scenario)
    run = read_run(results, policy, repeat - 1, present=present_scenario, traces=traces)
    inputs = [*files_of_results(results), *inputs_of(run.scenario), *([] if scenario is None else [scenario])]
    check_outputs(inputs, [], json)
    explanation = _answer(question(run, partition, seconds), quiet)
    digest = str(run.results.summary["scenario_sha256"])
    write_figures(json, as_json(explanation), digest, run.scenario.run.seed)
    console = output(quiet=quiet)
    for part in render(explanation, best):
        console.print(part)


def _answer(question: Explanation, quiet: bool) -> Explanation:
    """Return a question with its answer, from the repeated run, with a progress bar."""
    from rich.progress import TaskProgressColumn, TimeElapsedColumn

    from cluster.explanation.explanation import answer

    with progress(TaskProgressColumn(), TimeElapsedColumn(), quiet=quiet, transient=True) as bar:
        task = bar.add_task(f"{question.run.policy}, repeat {question.run.repeat + 1} (replay)", total=question.time_s)
        return answer(question, lambda now: bar.update(task, completed=now))


@clear_errors
def capacity_command(
    # long because of the options, each with its help
    scenario: ScenarioFile,
    violations: Annotated[
        float | None,
        Option(help="Violations a day of the cluster that the mean's 95 % interval may reach. Default: 1."),
    ] = None,
    nodes: Annotated[
        bool,
        Option("--nodes/--density", help="Search for the fewest nodes for the tenants, or for the highest density."),
    ] = True,
    refused: Annotated[
        float | None, Option(help="Largest share of tenants that are not placed on arrival. Default: 0.")
    ] = None,
    lowest: Annotated[
        float | None, Option(help="Smallest number of nodes, or lowest density. Default: one step.")
    ] = None,
    highest: Annotated[
        float | None,
        Option(help="Largest number of nodes, or highest density. Default: 4 times the scenario's."),
    ] = None,
    step: Annotated[float | None, Option(help="Resolution of the answer. Default: 1 node; density 0.05.")] = None,
    policy: Annotated[
        list[str] | None, Option(help="Policy. Can be repeated; each has an answer. Default: as in the scenario.")
    ] = None,
    repeats: Annotated[
        int | None, Option(min=1, help="Runs of each policy at each value. Default: as in the scenario, at least 10.")
    ] = None,
    each_repeat: Annotated[
        bool, Option("--each-repeat", help="Search each repeat by itself, too: the difference of policies, paired.")
    ] = False,
    days: RunDays = None,
    seed: RunSeed = None,
    traces: Traces = None,
    out: Annotated[
        Path | None, Option(help="Directory of the results. Default: results/capacity-NAME-nodes or -density.")
    ] = None,
    force: Annotated[
        bool, Option("--force", help="Answer another question in this directory. Runs that fit are reused.")
    ] = False,
    jobs: Jobs = None,
    json: Json = None,
    plot_format: PlotsFormat = PlotFormat.PNG,
    quiet: Quiet = False,
) -> None:
    """Find the number of nodes for a number of violations a day, or the highest density.

    Simulations search the answer for every policy, first in steps that double, then by bisection. The tenants do not
    depend on the number of nodes. Finished runs are kept. After Ctrl-C the same command resumes the search.
    """
    from cluster.capacity.question import LEAST_REPEATS, Searched, ask
    from cluster.capacity.running import CapacitySearch, Subject
    from cluster.results.writing import check_outputs
    from cluster.scenario.scenario_file import inputs_of, read_scenario

    repeat_count = repeats or max(read_scenario(scenario).run.repeats, LEAST_REPEATS)
    options: dict[str, Any] = {"policy": policy, "seed": seed, "repeats": repeat_count, "days": days}
    options |= {"density": None, "traces": None if traces is None else str(traces)}
    subject = Subject.read(scenario, options)
    limits = {"violations": violations, "refused": refused, "lowest": lowest, "highest": highest, "step": step}
    question = ask(subject.scenario, Searched.NODES if nodes else Searched.DENSITY, limits)
    folder = out or Path("results") / f"capacity-{subject.scenario.name}-{question.searched}"
    console = messages(quiet=quiet)
    check_outputs([scenario, *inputs_of(subject.scenario)], [], json)
    search = CapacitySearch(subject, question, folder, jobs=jobs, force=force, console=console, each_repeat=each_repeat)
    try:
        with plots_as(plot_format):
            search.run()
    except KeyboardInterrupt:
        _show(search, None, quiet=quiet)
        raise KeyboardInterrupt(f"the same command continues from {folder}") from None
    _show(search, json, quiet=quiet)


def _show(search: CapacitySearch, json: Path | None, *, quiet: bool) -> None:
    """Print the runs and the answers of a search, and write its figures to `json`, unless that is None."""
    from cluster.capacity.report import sentence, sentences_of_differences, table_of_points
    from cluster.results.writing import stamped, write_json

    if json is not None:
        configuration = {**search.asked, "inputs": dict(search.subject.inputs)}
        figures = stamped(search.figures, configuration, search.subject.scenario.run.seed)
        figures["stamp"]["versions"] |= search.code
        write_json(json, figures)
    console = output(quiet=quiet)
    if any(answer.points for answer in search.answers.values()):
        console.print(table_of_points(search.question, search.subject.scenario, search.answers))
    for answer in search.answers.values():
        console.print(sentence(search.question, answer), soft_wrap=True)
    for line in sentences_of_differences(search.question, search.found_by_repeat):
        console.print(line, soft_wrap=True)
    console.print(f"Answers, runs and plot: {search.folder}", soft_wrap=True)
