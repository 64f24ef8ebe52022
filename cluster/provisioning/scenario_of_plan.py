"""The scenario of a plan: a cluster with its nodes, which begins with its tenants on them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from cluster.results.writing import write_text
from cluster.scenario.sections import directory_name
from cluster.simulation.planned_tenants import used_kinds
from plb.provisioning import ProvisioningPlan
from workloads.provisioning import NodeSpec, write_plan

MARGIN = 0.001
"""Share by which nodes of the scenario are larger than those of the plan.

A plan may fill a node to the last unit, and a node that reaches its threshold is in violation. The engine rounds the
load of each replica up to a quantum of one to two millionths of the capacity of the first node. The margin is enough
for hundreds of replicas.
"""
SCENARIO, PLAN = "scenario.toml", "plan.csv"
BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def write_scenario(folder: Path, plan: ProvisioningPlan, source: Path, nodes: Sequence[str] | None) -> Path:
    """Write ``scenario.toml`` and ``plan.csv`` to a folder, which is created if necessary; return the scenario's path.

    Parameters
    ----------
    plan
        A plan without faults.
    source
        File or directory of its instance.
    nodes
        Kinds of nodes from ``--node``.
    """
    write_plan(folder / PLAN, plan)
    inside = source.resolve().is_relative_to(folder.resolve())
    path = source.resolve().relative_to(folder.resolve()) if inside else source.resolve()
    text = "\n".join(_lines(plan, path.as_posix(), nodes or ()))
    write_text(folder / SCENARIO, text + "\n")
    return folder / SCENARIO


def _lines(plan: ProvisioningPlan, source: str, nodes: Sequence[str]) -> Iterator[str]:
    instance, first = plan.instance, f"n{0:0{len(str(plan.nodes - 1))}d}"
    yield f"# {plan.algorithm}'s plan for {_text(instance.name)}, as plb provision wrote it."
    yield f"# To run it: plb simulate {SCENARIO}"
    yield f"name = {_text(directory_name(instance.name))}"
    yield ""
    yield from _cluster(plan)
    yield ""
    yield "[workload]"
    yield 'kind = "plan"'
    yield f"path = {_text(source)}"
    yield f"plan = {_text(PLAN)}"
    if nodes:
        yield f"nodes = [{', '.join(map(_text, nodes))}]"
    yield f"density_metric = {_text(_density_metric(plan))}"
    if instance.time_points > 1:
        yield f"plan_hours = 24.0  # the {instance.time_points} time points, spread over it and repeated"
    yield "# An application that grows beyond its plan for a while:"
    application = _text(instance.applications[0])
    yield f"# growth = [{{ tenant_class = {application}, at_hours = 6.0, hours = 6.0, factor = 1.5 }}]"
    yield ""
    yield "[run]"
    yield "days = 1"
    yield 'policies = ["original"]'
    yield ""
    yield "# A node that is lost for a while:"
    yield "# [faults]"
    yield f'# crashes = [{{ node = "{first}", at_hours = 6.0, hours = 2.0 }}]'


def _cluster(plan: ProvisioningPlan) -> Iterator[str]:
    """Yield the lines of ``[cluster]``: each kind of nodes that the plan uses."""
    (_, spec), *others = used_kinds(plan)
    yield "[cluster]"
    yield f"nodes = {plan.nodes}"
    yield f"# What nodes of the plan have and {MARGIN:.1%} more: they may be full to the last unit, a node at its"
    yield "# threshold is in violation, and loads are rounded up a little."
    yield f"capacities = {_capacities(plan, spec)}"
    if others:
        groups = (f"{{ nodes = {nodes}, capacities = {_capacities(plan, kind)} }}" for nodes, kind in others)
        yield f"groups = [{', '.join(groups)}]"
    yield "violation_threshold = 1.0"
    yield "# The plan knows no domains. With fewer than nodes, replicas are spread over them, limits or not, when"
    yield "# constraints are first checked."
    for name in ("upgrade_domains", "fault_domains"):
        yield f"{name} = {plan.nodes}"


def _density_metric(plan: ProvisioningPlan) -> str:
    """Return the first resource that the nodes of the first kind have."""
    capacity = dict(zip(plan.instance.resources, used_kinds(plan)[0][1].capacity, strict=True))
    return next((name for name, value in capacity.items() if value > 0), plan.instance.resources[0])


def _capacities(plan: ProvisioningPlan, spec: NodeSpec) -> str:
    enlarged = (f"{value * (1.0 + MARGIN):.12g}" for value in spec.capacity)
    pairs = (f"{_key(name)} = {value}" for name, value in zip(plan.instance.resources, enlarged, strict=True))
    return f"{{ {', '.join(pairs)} }}"


def _key(name: str) -> str:
    return name if BARE_KEY.fullmatch(name) else _text(name)


def _text(text: str) -> str:
    """Return a text in quotes, with the escapes of JSON. TOML has the same, except for the delete character."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
