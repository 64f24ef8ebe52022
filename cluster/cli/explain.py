"""``plb explain``: the reasons for the placement of a tenant in a simulated run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from cluster.cli.options import Quiet
from cluster.console.output import clear_errors, messages, output

if TYPE_CHECKING:
    from cluster.explanation.explanation import Explanation


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
    from cluster.explanation.as_json import as_json
    from cluster.explanation.as_text import render
    from cluster.explanation.explanation import question
    from cluster.results.recorded_run import read_run
    from cluster.results.writing import check_outputs, files_of_results, stamped, write_json
    from cluster.scenario.scenario_file import inputs_of, read_scenario
    from cluster.scenario.times import seconds_of

    seconds = seconds_of(time)
    given = None if scenario is None else read_scenario(scenario)
    run = read_run(results, policy, repeat - 1, given=given, traces=traces)
    read = [*files_of_results(results), *inputs_of(run.scenario), *([] if scenario is None else [scenario])]
    check_outputs(read, [], json)
    found = _answer(question(run, partition, seconds), quiet)
    if json is not None:
        digest = str(run.results.summary["scenario_sha256"])
        write_json(json, stamped(as_json(found), digest, run.scenario.run.seed))
    console = output(quiet=quiet)
    for one in render(found, best):
        console.print(one)


def _answer(asked: Explanation, quiet: bool) -> Explanation:
    """Repeat the run with a progress bar."""
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    from cluster.explanation.explanation import answer

    columns = TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn(), TimeElapsedColumn()
    with Progress(*columns, console=messages(), disable=quiet, transient=True) as bar:
        task = bar.add_task(f"{asked.run.policy}, repeat {asked.run.repeat + 1} (replay)", total=asked.time_s)
        return answer(asked, lambda now: bar.update(task, completed=now))
