"""``plb provision``: the number of nodes that applications need, and a placement."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from cluster.cli.options import Json, Quiet
from cluster.console.output import clear_errors


def _list_algorithms(required: bool) -> None:
    if required:
        from plb.provisioning import AUTO, algorithm_names

        typer.echo("\n".join((AUTO, *algorithm_names())))
        raise typer.Exit


@clear_errors
def provision_command(
    # long because of the options, each with its help
    instance: Annotated[
        Path,
        Argument(
            help="A CSV file of the paper's authors (app_id, nb_instances, core, memory, inter_degree, inter_aff), or "
            "the directory of the Tianchi contest's files."
        ),
    ],
    algorithm: Annotated[
        str, Option(metavar="NAME", help="Algorithm: auto for the best plan in the time limit, or one of --list.")
    ] = "auto",
    rules: Annotated[
        str, Option(help="Rules: paper, or released for those of the authors' programs (constant demand).")
    ] = "paper",
    time_limit: Annotated[
        float | None, Option(min=0.0, help="Seconds, after which the best plan so far is the result. Default: none.")
    ] = None,
    seed: Annotated[int, Option(min=0, help="Seed of the random numbers of auto. The other algorithms use none.")] = 0,
    node: Annotated[
        list[str] | None,
        Option(
            metavar="SPEC",
            help="A kind of nodes: 64,128 or large=64,128 or large=64,128x500 (500 nodes). Can be repeated, in order "
            "of use. Default: the machines of the contest, else 64,128.",
        ),
    ] = None,
    out: Annotated[
        Path | None, Option(help="Write the plan to this CSV file: node, node_type, application, replicas.")
    ] = None,
    scenario: Annotated[
        Path | None,
        Option(
            metavar="FOLDER",
            help="Write scenario.toml and plan.csv to this folder: a cluster of these nodes that starts with the plan, "
            "for plb simulate FOLDER/scenario.toml.",
        ),
    ] = None,
    force: Annotated[bool, Option("--force", help="Overwrite a plan, or a scenario in the folder.")] = False,
    json: Json = None,
    quiet: Quiet = False,
    _list: Annotated[
        bool, Option("--list", help="List the algorithms.", is_eager=True, callback=_list_algorithms)
    ] = False,
) -> None:
    """Plan nodes for applications with replicas and limits between them (Mommessin et al., 2022)."""
    from cluster.provisioning.output import check_endings, finish, progress
    from cluster.provisioning.scenario_of_plan import PLAN, SCENARIO, write_scenario
    from cluster.results.writing import check_outputs
    from cluster.scenario.digests import digest_of_files
    from plb.provisioning import provision
    from workloads.provisioning import read_instance, write_plan
    from workloads.provisioning.source import parse_nodes

    of_scenario = () if scenario is None else (scenario / SCENARIO, scenario / PLAN)
    check_outputs([instance], [out, *of_scenario], json, force=force)
    check_endings([out])
    nodes = None if node is None else parse_nodes(node)
    with progress(quiet) as report:
        report(f"reading {instance}")
        problem = read_instance(instance, nodes)
        plan = provision(problem, algorithm, rules=rules, time_limit=time_limit, seed=seed, report=report)
        report("checking the plan")
        faults = plan.faults()
    if out is not None:
        write_plan(out, plan)
    note = None
    if scenario is not None and not faults:
        note = write_scenario(scenario, plan, instance, node)
    configuration = {
        "instance": digest_of_files(instance),
        "nodes": node,
        "algorithm": algorithm,
        "rules": rules,
        "time_limit": time_limit,
        "seed": seed,
    }
    written = {"Plan": out, "Scenario": note}
    finish(plan, faults, written, json, configuration=configuration, seed=seed, quiet=quiet)
