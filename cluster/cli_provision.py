"""``plb provision``: how many nodes applications need, and what goes where."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cluster.console import clear_errors, output

if TYPE_CHECKING:
    from rich.table import Table

    from plb.provisioning import ProvisioningPlan
    from plb.provisioning.workbench import Tell


def _list_algorithms(wanted: bool) -> None:
    if wanted:
        from plb.provisioning import AUTO, algorithm_names

        typer.echo("\n".join((AUTO, *algorithm_names())))
        raise typer.Exit


@clear_errors
def provision_command(
    instance: Annotated[
        Path,
        typer.Argument(
            help="A CSV file of the paper's authors (app_id, nb_instances, core, memory, inter_degree, inter_aff), or "
            "the directory of the Tianchi contest's files.",
            show_default=False,
        ),
    ],
    algorithm: Annotated[
        str, typer.Option(metavar="NAME", help="auto: the best plan in the time allowed; or one of --list.")
    ] = "auto",
    rules: Annotated[
        str, typer.Option(help="paper, or released: as the paper's authors' programs do it, for constant demand.")
    ] = "paper",
    time_limit: Annotated[
        float | None,
        typer.Option(min=0.0, help="Seconds; the best plan found by then is given. Default: none.", show_default=False),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the random numbers of auto; the others draw none.")] = 0,
    node: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SPEC",
            help="A kind of nodes, 64,128 or large=64,128 or large=64,128x500 (500 of them); may be given again, those "
            "to be used first in front. Default: the contest's machines, else 64,128.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Write the plan to this CSV file: node, node_type, application, replicas."),
    ] = None,
    scenario: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Write scenario.toml and plan.csv to this folder: a cluster of these nodes that begins with the plan, "
            "for plb simulate FOLDER/scenario.toml.",
        ),
    ] = None,
    json: Annotated[Path | None, typer.Option(help="Write the figures to this file.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")] = False,
    _list: Annotated[
        bool, typer.Option("--list", help="Name the algorithms.", is_eager=True, callback=_list_algorithms)
    ] = False,
) -> None:
    """Plan nodes for applications with replicas and limits between them (Mommessin et al., 2022)."""
    from cluster.planned_scenario import PLAN, SCENARIO, write_scenario
    from cluster.results import check_file, write_json
    from plb import ConflictError
    from plb.provisioning import provision
    from workloads.provisioning import read_instance, write_plan
    from workloads.provisioning.source import parse_nodes

    for path in (out, json, *(() if scenario is None else (scenario / SCENARIO, scenario / PLAN))):
        check_file(path)
        if path is not None and instance.resolve() in (path.resolve(), path.resolve().parent) and path.exists():
            raise ConflictError(f"{path}: is read; give another file to write to")
    nodes = None if node is None else parse_nodes(node)
    with _progress(quiet) as tell:
        tell(f"reading {instance}")
        problem = read_instance(instance, nodes)
        plan = provision(problem, algorithm, rules=rules, time_limit=time_limit, seed=seed, tell=tell)
        tell("checking the plan")
        faults = plan.faults()
    console = output(quiet=quiet)
    console.print(_table(plan, valid=not faults))
    for fault in faults:
        typer.secho(f"plb: {fault}", err=True, fg=typer.colors.RED)
    if out is not None:
        write_plan(out, plan)
        console.print(f"Plan: {out}", highlight=False)
    if scenario is not None and not faults:
        console.print(f"Scenario: {write_scenario(scenario, plan, instance, node)}", highlight=False)
    if json is not None:
        write_json(json, _figures(plan, valid=not faults))
    if faults:
        raise typer.Exit(1)


@contextmanager
def _progress(quiet: bool) -> Iterator[Tell]:
    """Show the latest line that is told, on standard error."""
    from rich.console import Console

    if quiet:
        yield lambda _text: None
        return
    with Console(stderr=True).status("") as status:
        yield status.update


def _figures(plan: ProvisioningPlan, *, valid: bool) -> dict[str, Any]:
    return {
        "algorithm": plan.algorithm,
        "nodes": plan.nodes,
        "lower_bound": plan.lower_bound,
        "deviation_percent": plan.deviation_percent,
        "seconds": plan.seconds,
        "valid": valid,
    }


def _table(plan: ProvisioningPlan, *, valid: bool) -> Table:
    from rich.table import Table

    problem = plan.instance
    table = Table(title=f"plan for {problem.name}", show_header=False)
    table.add_column()
    table.add_column(justify="right")
    table.add_row("applications", f"{len(problem.applications):,}")
    table.add_row("replicas", f"{int(problem.replicas.sum()):,}")
    table.add_row("limits between applications", f"{len(problem.affinity):,}")
    table.add_row("time points", f"{problem.time_points:,}")
    table.add_row("algorithm", plan.algorithm)
    table.add_row("nodes", f"{plan.nodes:,}")
    for number, node_type in enumerate(problem.nodes):
        if len(problem.nodes) > 1:
            table.add_row(f"  {node_type.name}", f"{int((plan.kind == number).sum()):,}")
    table.add_row("lower bound", f"{plan.lower_bound:,}")
    table.add_row("above it", f"{plan.deviation_percent:.2f} %")
    table.add_row("seconds", f"{plan.seconds:.2f}")
    table.add_row("valid", "yes" if valid else "no")
    return table
