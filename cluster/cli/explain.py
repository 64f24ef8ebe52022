"""``plb explain``: why a tenant stood where it stood in a simulated run, or why it was not placed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cluster.cli.options import Quiet
from cluster.console.output import clear_errors, messages, output

if TYPE_CHECKING:
    from cluster.explanation.explanation import Explanation


@clear_errors
def explain_command(
    results: Annotated[Path, typer.Argument(metavar="DIR", help="The results directory of plb simulate.")],
    partition: Annotated[
        str, typer.Option(help="The tenant: a name from the column `tenant` of the tables.", show_default=False)
    ],
    time: Annotated[
        str,
        typer.Option(
            help="The time since the start: seconds, or such as 3d, 2d4h30m, 36h. All that happens at it has happened.",
            show_default=False,
        ),
    ],
    policy: Annotated[str | None, typer.Option(help="Policy of the run. Default: the first of the scenario.")] = None,
    repeat: Annotated[int, typer.Option(min=1, help="Repeat of the run, from 1: tables count them from 0.")] = 1,
    best: Annotated[int, typer.Option(min=1, help="Other nodes that are told, the best or nearest ones.")] = 5,
    scenario: Annotated[
        Path | None,
        typer.Option(help="The scenario's file, where it imports files or policies name files, or traces have moved."),
    ] = None,
    traces: Annotated[Path | None, typer.Option(help="Directory of the traces, where it is another one now.")] = None,
    json: Annotated[
        Path | None, typer.Option(help="Write all data of the explanation to this file; `repeat` from 0, as in tables.")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Tell why a tenant's replicas stood where they stood, or had no place, and what would have to change.

    The run is simulated anew up to the time, which takes as long as it took then, and is held against the tables.
    Then every node is asked: which rule rules it out, or what the energy would be with the replica there.
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
    """Play the run again with a progress bar."""
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    from cluster.explanation.explanation import answer

    columns = TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn(), TimeElapsedColumn()
    with Progress(*columns, console=messages(), disable=quiet, transient=True) as bar:
        task = bar.add_task(f"{asked.run.policy}, repeat {asked.run.repeat + 1}, again", total=asked.time_s)
        return answer(asked, lambda now: bar.update(task, completed=now))
