"""``plb capacity``: how many nodes a scenario needs, or how dense it can be, for at most so many violations a day."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cluster.cli.options import Jobs, Json, Quiet
from cluster.console.output import clear_errors, messages, output

if TYPE_CHECKING:
    from cluster.capacity.running import CapacitySearch


@clear_errors
def capacity_command(
    # long, as most of it are the options, each with its help
    scenario: Annotated[Path, typer.Argument(help="The scenario, a TOML file.", show_default=False)],
    violations: Annotated[
        float | None, typer.Option(help="Most violations a day of the whole cluster. Default: 1.", show_default=False)
    ] = None,
    nodes: Annotated[
        bool, typer.Option("--nodes/--density", help="Search the fewest nodes for its tenants, or the highest density.")
    ] = True,
    refused: Annotated[
        float | None,
        typer.Option(help="Largest share of tenants without a place on arrival. Default: 0.", show_default=False),
    ] = None,
    lowest: Annotated[
        float | None, typer.Option(help="Fewest nodes, or lowest density. Default: one step.", show_default=False)
    ] = None,
    highest: Annotated[
        float | None,
        typer.Option(help="Most nodes, or highest density. Default: 4 times the scenario's.", show_default=False),
    ] = None,
    step: Annotated[
        float | None, typer.Option(help="Grain of the answer. Default: 1 node; density 0.05.", show_default=False)
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(help="Policy, may be given again; each has its answer. Default: those of the scenario."),
    ] = None,
    repeats: Annotated[
        int | None,
        typer.Option(min=1, help="Runs of each policy at each value. Default: those of the scenario, 3 at least."),
    ] = None,
    days: Annotated[float | None, typer.Option(help="Simulated days, instead of the scenario's.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed, instead of the scenario's.")] = None,
    traces: Annotated[Path | None, typer.Option(help="Directory of the traces, instead of the scenario's.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Directory of the results. Default: results/capacity-NAME-nodes or -density.", show_default=False
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Ask another question in this directory; runs that fit are used again.")
    ] = False,
    jobs: Jobs = None,
    json: Json = None,
    quiet: Quiet = False,
) -> None:
    """Find how many nodes are needed for at most so many violations a day, or how dense the cluster can be.

    The answer is searched by simulation, for every policy: first in steps that double, then by bisection. With other
    nodes the tenants stay the same. What is finished is kept: after Ctrl-C the same command goes on where it stood.
    """
    from cluster.capacity.evaluation import Subject
    from cluster.capacity.question import LEAST_REPEATS, Searched, ask
    from cluster.capacity.running import CapacitySearch
    from cluster.results.writing import check_outputs
    from cluster.scenario.scenario_file import inputs_of, read_scenario

    chosen = repeats or max(read_scenario(scenario).run.repeats, LEAST_REPEATS)
    given: dict[str, Any] = {"policy": policy, "seed": seed, "repeats": chosen, "days": days}
    given |= {"density": None, "traces": None if traces is None else str(traces)}
    subject = Subject.read(scenario, given)
    limits = {"violations": violations, "refused": refused, "lowest": lowest, "highest": highest, "step": step}
    question = ask(subject.scenario, Searched.NODES if nodes else Searched.DENSITY, limits)
    folder = out or Path("results") / f"capacity-{subject.scenario.name}-{question.searched}"
    console = messages(quiet=quiet)
    check_outputs([scenario, *inputs_of(subject.scenario)], [], json)
    search = CapacitySearch(subject, question, folder, jobs=jobs, force=force, console=console)
    try:
        search.run()
    except KeyboardInterrupt:
        _show(search, None, quiet=quiet)
        raise KeyboardInterrupt(f"the same command goes on from {folder}") from None
    _show(search, json, quiet=quiet)


def _show(search: CapacitySearch, json: Path | None, *, quiet: bool) -> None:
    """Print what was tried, and the answers; write them as JSON."""
    from cluster.capacity.report import sentence, table_of_points
    from cluster.results.writing import stamped, write_json

    if json is not None:
        depends_on = {**search.asked, "inputs": dict(search.subject.inputs)}
        write_json(json, stamped(search.figures, depends_on, search.subject.scenario.run.seed))
    console = output(quiet=quiet)
    if any(answer.points for answer in search.answers.values()):
        console.print(table_of_points(search.question, search.subject.scenario, search.answers))
    for answer in search.answers.values():
        console.print(sentence(search.question, answer), soft_wrap=True)
    console.print(f"Report, runs and plot: {search.folder}", soft_wrap=True)
