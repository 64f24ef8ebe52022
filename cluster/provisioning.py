"""Output of the commands that plan nodes, and the scenario of a plan, which begins with its tenants on its nodes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from rich.markup import escape
from rich.table import Table

from cluster.console import FAILED, messages, output, say
from cluster.results.writing import write_figures, write_text
from cluster.scenario.sections import directory_name
from cluster.simulation.tenant_pools import used_kinds
from plb.provisioning import Moves, ProvisioningPlan
from plb.provisioning.solver_context import ReportProgress
from workloads.provisioning import NodeSpec, write_plan
from workloads.provisioning.authors import writer_of


def check_endings(outputs: Sequence[Path | None]) -> None:
    """Raise `InvalidValueError` for the name of a file whose compression cannot be written, before a long search."""
    for path in outputs:
        if path is not None:
            writer_of(path)


def finish(
    plan: ProvisioningPlan,
    faults: Sequence[str],
    written: Mapping[str, Path | None],
    json: Path | None,
    *,
    configuration: Mapping[str, Any],
    seed: int,
    moves: Moves | None = None,
    quiet: bool,
) -> None:
    """Print the summary of a plan, written files and faults, and write its figures to `json`.

    Faults end with exit code 1. `written`: paths by what the files contain; `configuration`, `seed`: inputs for the
    stamp of the figures; `moves`: the moves from an earlier plan.
    """
    console = output(quiet=quiet)
    console.print(_table(plan, moves, valid=not faults))
    for fault in faults:
        say(fault)
    for content, path in written.items():
        if path is not None:
            console.print(f"{content}: {path}")
    write_figures(json, _figures(plan, moves, valid=not faults), configuration, seed)
    if faults:
        raise typer.Exit(FAILED)


@contextmanager
def progress(quiet: bool) -> Iterator[ReportProgress]:
    """Yield a function that shows a text on standard error, in place of the previous one."""
    if quiet:
        yield lambda _text: None
        return
    with messages().status("") as status:
        yield lambda text: status.update(escape(text))


def _figures(plan: ProvisioningPlan, moves: Moves | None, *, valid: bool) -> dict[str, Any]:
    """Return the figures of a plan and of its `moves` from an earlier one; `valid`: without faults."""
    figures = {
        "algorithm": plan.algorithm,
        "nodes": plan.nodes,
        "lower_bound": plan.lower_bound,
        "deviation_percent": plan.deviation_percent,
        "seconds": plan.seconds,
        "valid": valid,
    }
    if moves is None:
        return figures
    return {**figures, "moved": moves.moved, "placed": moves.placed, "removed": moves.removed}


def _table(plan: ProvisioningPlan, moves: Moves | None, *, valid: bool) -> Table:
    """Return the summary of a plan and of its `moves` from an earlier one, as a table; `valid`: without faults."""
    instance = plan.instance
    table = Table(title=f"plan for {instance.name}", show_header=False)
    table.add_column()
    table.add_column(justify="right")
    counts = [int((plan.kind == number).sum()) for number in range(len(instance.nodes))]
    nodes_by_kind = [(f"  {kind.name}", f"{count:,}") for kind, count in zip(instance.nodes, counts, strict=True)]
    changes = {} if moves is None else {"move": moves.moved, "come": moves.placed, "go": moves.removed}
    for row in (
        ("applications", f"{len(instance.applications):,}"),
        ("replicas", f"{int(instance.replicas.sum()):,}"),
        ("limits between applications", f"{len(instance.affinity):,}"),
        ("time points", f"{instance.time_points:,}"),
        ("algorithm", plan.algorithm),
        ("nodes", f"{plan.nodes:,}"),
        *(nodes_by_kind if len(nodes_by_kind) > 1 else ()),
        ("lower bound", f"{plan.lower_bound:,}"),
        ("above it", f"{plan.deviation_percent:.2f} %"),
        ("seconds", f"{plan.seconds:.2f}"),
        *((f"replicas that {verb}", f"{count:,}") for verb, count in changes.items()),
        ("valid", "yes" if valid else "no"),
    ):
        table.add_row(*row)
    return table


MARGIN = 0.001
"""Share by which nodes are larger in the scenario than in the plan.

A plan may fill a node to the last unit, and a node that reaches its threshold is in violation. The engine rounds the
load of each replica up to a quantum of one to two millionths of the capacity of the first node. The margin is enough
for hundreds of replicas.
"""
SCENARIO, PLAN = "scenario.toml", "plan.csv"
BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def write_scenario(folder: Path, plan: ProvisioningPlan, source: Path, nodes: Sequence[str] | None) -> Path:
    """Write ``scenario.toml`` and ``plan.csv`` of a plan without faults to a folder; return the path of the first.

    `source`: the path of the instance; `nodes`: the kinds of nodes as the command line gave them, or None.
    """
    write_plan(folder / PLAN, plan)
    inside = source.resolve().is_relative_to(folder.resolve())
    path = source.resolve().relative_to(folder.resolve()) if inside else source.resolve()
    write_text(folder / SCENARIO, _scenario_of(plan, path.as_posix(), nodes or ()))
    return folder / SCENARIO


def _scenario_of(plan: ProvisioningPlan, source: str, nodes: Sequence[str]) -> str:
    """Return the scenario of a plan as TOML, with each kind of nodes that the plan uses.

    `source`: path of the instance; `nodes`: the kinds of nodes as the command line gave them.
    """
    instance, ((_, first_kind), *other_kinds) = plan.instance, used_kinds(plan)
    groups = [f"{{ nodes = {count}, capacities = {_capacities(plan, kind)} }}" for count, kind in other_kinds]
    groups_line = f"groups = [{', '.join(groups)}]\n" if groups else ""
    nodes_line = f"nodes = [{', '.join(map(_text, nodes))}]\n" if nodes else ""
    hours_line = f"plan_hours = 24.0  # the {instance.time_points} time points, spread over it and repeated\n"
    first_node = f"n{0:0{len(str(plan.nodes - 1))}d}"
    return f"""\
# {plan.algorithm}'s plan for {_text(instance.name)}, as plb provision wrote it.
# To run it: plb simulate {SCENARIO}
name = {_text(directory_name(instance.name))}

[cluster]
nodes = {plan.nodes}
# What nodes of the plan have and {MARGIN:.1%} more: they may be full to the last unit, a node at its
# threshold is in violation, and loads are rounded up a little.
capacities = {_capacities(plan, first_kind)}
{groups_line}violation_threshold = 1.0
# The plan knows no domains. With fewer than nodes, replicas are spread over them, limits or not, when
# constraints are first checked.
upgrade_domains = {plan.nodes}
fault_domains = {plan.nodes}

[workload]
kind = "plan"
path = {_text(source)}
plan = {_text(PLAN)}
{nodes_line}density_metric = {_text(_density_metric(plan))}
{hours_line if instance.time_points > 1 else ""}# An application that grows beyond its plan for a while:
# growth = [{{ tenant_class = {_text(instance.applications[0])}, at_hours = 6.0, hours = 6.0, factor = 1.5 }}]

[run]
days = 1
policies = ["original"]

# A node that is lost for a while:
# [faults]
# crashes = [{{ node = "{first_node}", at_hours = 6.0, hours = 2.0 }}]
"""


def _density_metric(plan: ProvisioningPlan) -> str:
    """Return the first resource that the nodes of the first kind have."""
    capacity = dict(zip(plan.instance.resources, used_kinds(plan)[0][1].capacity, strict=True))
    return next((name for name, value in capacity.items() if value > 0), plan.instance.resources[0])


def _capacities(plan: ProvisioningPlan, spec: NodeSpec) -> str:
    """Return the capacities of nodes of a kind, with a margin, as an inline table of TOML."""
    enlarged = (f"{value * (1.0 + MARGIN):.12g}" for value in spec.capacity)
    pairs = (f"{_key(name)} = {value}" for name, value in zip(plan.instance.resources, enlarged, strict=True))
    return f"{{ {', '.join(pairs)} }}"


def _key(name: str) -> str:
    """Return a name as a key of TOML."""
    return name if BARE_KEY.fullmatch(name) else _text(name)


def _text(text: str) -> str:
    """Return a text in quotes for TOML: JSON's form, with an escape for the delete character, too."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
