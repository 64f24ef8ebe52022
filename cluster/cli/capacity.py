"""``plb capacity``: the number of nodes that a scenario needs for some violations a day, or its highest density."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from cluster.cli.options import Jobs, Json, Quiet
from cluster.console.output import clear_errors, messages, output

if TYPE_CHECKING:
    from cluster.capacity.running import CapacitySearch


@clear_errors
def capacity_command(
    # long because of the options, each with its help
    scenario: Annotated[Path, Argument(help="The scenario, a TOML file.")],
    violations: Annotated[
        float | None, Option(help="Largest number of violations a day of the cluster. Default: 1.")
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
        float | None, Option(help="Largest number of nodes, or highest density. Default: 4 times that of the scenario.")
    ] = None,
    step: Annotated[float | None, Option(help="Resolution of the answer. Default: 1 node; density 0.05.")] = None,
    policy: Annotated[
        list[str] | None, Option(help="Policy. Can be repeated; each has an answer. Default: those of the scenario.")
    ] = None,
    repeats: Annotated[
        int | None, Option(min=1, help="Runs of each policy at each value. Default: those of the scenario, at least 3.")
    ] = None,
    days: Annotated[float | None, Option(help="Simulated days, instead of those of the scenario.")] = None,
    seed: Annotated[int | None, Option(help="Seed, instead of that of the scenario.")] = None,
    traces: Annotated[Path | None, Option(help="Directory of the traces, instead of that of the scenario.")] = None,
    out: Annotated[
        Path | None, Option(help="Directory of the results. Default: results/capacity-NAME-nodes or -density.")
    ] = None,
    force: Annotated[
        bool, Option("--force", help="Answer another question in this directory. Runs that fit are reused.")
    ] = False,
    jobs: Jobs = None,
    json: Json = None,
    quiet: Quiet = False,
) -> None:
    """Find the number of nodes for a number of violations a day, or the highest density.

    Simulations search the answer for every policy, first in steps that double, then by bisection. The tenants do not
    depend on the number of nodes. Finished runs are kept. After Ctrl-C the same command resumes the search.
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
        raise KeyboardInterrupt(f"the same command continues from {folder}") from None
    _show(search, json, quiet=quiet)


def _show(search: CapacitySearch, json: Path | None, *, quiet: bool) -> None:
    """Print the runs and the answers; write them as JSON."""
    from cluster.capacity.report import sentence, table_of_points
    from cluster.results.writing import stamped, write_json

    if json is not None:
        depends_on = {**search.asked, "inputs": dict(search.subject.inputs)}
        found = stamped(search.figures, depends_on, search.subject.scenario.run.seed)
        found["stamp"]["versions"] |= search.code
        write_json(json, found)
    console = output(quiet=quiet)
    if any(answer.points for answer in search.answers.values()):
        console.print(table_of_points(search.question, search.subject.scenario, search.answers))
    for answer in search.answers.values():
        console.print(sentence(search.question, answer), soft_wrap=True)
    console.print(f"Report, runs and plot: {search.folder}", soft_wrap=True)
