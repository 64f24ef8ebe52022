"""``plb provision`` and ``plb replan``: the number of nodes that applications need, and a placement."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from cluster.cli.options import Json, PlanFile, Quiet
from cluster.console import clear_errors

if TYPE_CHECKING:
    from plb.provisioning import Instance, ProvisioningPlan


def _list_algorithms(is_given: bool) -> None:
    """Print the names of all algorithms and end, if ``--list`` was given."""
    if is_given:
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
        str, Option(help="Rules: paper, or released for the rules of the authors' programs (constant demand).")
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
    out: PlanFile = None,
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
    from cluster.provisioning import PLAN, SCENARIO, check_endings, finish, progress, write_scenario
    from cluster.results.writing import check_outputs
    from cluster.scenario.digests import digest_of_files
    from plb.provisioning import provision
    from workloads.provisioning import read_instance, write_plan
    from workloads.provisioning.plans import parse_nodes

    scenario_files = () if scenario is None else (scenario / SCENARIO, scenario / PLAN)
    check_outputs([instance], [out, *scenario_files], json, force=force)
    check_endings([out])
    node_kinds = None if node is None else parse_nodes(node)
    with progress(quiet) as report:
        report(f"reading {instance}")
        problem = read_instance(instance, node_kinds)
        plan = provision(problem, algorithm, rules=rules, time_limit=time_limit, seed=seed, report=report)
        report("checking the plan")
        faults = plan.faults()
    if out is not None:
        write_plan(out, plan)
    scenario_file = None
    if scenario is not None and not faults:
        scenario_file = write_scenario(scenario, plan, instance, node)
    configuration = {
        "instance": digest_of_files(instance),
        "nodes": node,
        "algorithm": algorithm,
        "rules": rules,
        "time_limit": time_limit,
        "seed": seed,
    }
    written = {"Plan": out, "Scenario": scenario_file}
    finish(plan, faults, written, json, configuration=configuration, seed=seed, quiet=quiet)


ANY_NUMBER = "any"
MOST_DIGITS = 18
"""Maximum length of a number of moves."""


@clear_errors
def replan_command(
    # long because of the options, each with its help
    instance: Annotated[Path, Argument(help="The applications, as for plb provision.")],
    plan: Annotated[
        Path,
        Argument(
            help="The present placement: a plan of plb provision, or the directory of the files of the Tianchi "
            "contest. Applications that are not in the instance are ignored."
        ),
    ],
    moves: Annotated[
        str,
        Option(
            metavar="N",
            help="Largest number of moves to reduce the nodes, or any. Moves that repair the placement are always "
            "made, and count.",
        ),
    ] = "0",
    time_limit: Annotated[
        float | None, Option(min=0.0, help="Seconds, after which no further node is emptied. Default: none.")
    ] = None,
    seed: Annotated[int, Option(min=0, help="Seed of the random numbers.")] = 0,
    node: Annotated[list[str] | None, Option(metavar="SPEC", help="A kind of nodes, as for plb provision.")] = None,
    out: PlanFile = None,
    moves_out: Annotated[
        Path | None, Option(help="Write the moves to this CSV file: application, source, target, replicas.")
    ] = None,
    force: Annotated[bool, Option("--force", help="Overwrite a plan or moves.")] = False,
    json: Json = None,
    quiet: Quiet = False,
) -> None:
    """Plan from the present placement with few moves, for applications that were added, removed or changed."""
    from cluster.provisioning import check_endings, finish, progress
    from cluster.results.writing import check_outputs
    from cluster.scenario.digests import digest_of_files
    from plb.provisioning import moves_between, replan
    from workloads.provisioning import read_instance, write_moves, write_plan
    from workloads.provisioning.plans import parse_nodes

    most_moves = _most_moves(moves)
    check_outputs([instance, plan], [out, moves_out], json, force=force)
    check_endings([out, moves_out])
    node_kinds = None if node is None else parse_nodes(node)
    with progress(quiet) as report:
        report(f"reading {instance}")
        problem = read_instance(instance, node_kinds)
        report(f"reading {plan}")
        present_plan = _read(plan, problem)
        new_plan = replan(present_plan, most_moves=most_moves, time_limit=time_limit, seed=seed, report=report)
        report("checking the plan")
        faults, changes = new_plan.faults(), moves_between(present_plan, new_plan)
    if out is not None:
        write_plan(out, new_plan)
    if moves_out is not None:
        write_moves(moves_out, problem, changes)
    configuration = {
        "instance": digest_of_files(instance),
        "plan": digest_of_files(plan),
        "nodes": node,
        "moves": most_moves,
        "time_limit": time_limit,
        "seed": seed,
    }
    written = {"Plan": out, "Moves": moves_out}
    finish(new_plan, faults, written, json, configuration=configuration, seed=seed, moves=changes, quiet=quiet)


def _most_moves(text: str) -> int | None:
    """Return the largest number of moves in a text; None for any number."""
    from plb import InvalidValueError

    if text == ANY_NUMBER:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < MOST_DIGITS):
        raise InvalidValueError("replan", "--moves", text, f"a whole number, or {ANY_NUMBER}")
    return int(text)


def _read(path: Path, instance: Instance) -> ProvisioningPlan:
    """Return the present placement of an instance: a plan, or the directory of files of the Tianchi contest."""
    from workloads.provisioning import read_contest_placement, read_plan

    return read_contest_placement(path, instance) if path.is_dir() else read_plan(path, instance, of_another=True)
