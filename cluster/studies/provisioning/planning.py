"""A run of the study of [3]: all algorithms of a figure plan one instance."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from cluster.studies.provisioning.design import AlgorithmArm, InstanceGroup, PublishedFigure, arms
from cluster.warmup.warmup import warm_up_provisioning
from plb import PlbError
from plb.compiler import working_time
from plb.provisioning import AUTO, Instance, lower_bound, provision
from workloads.provisioning import PAPER_NODES, GraphKind, larger_instance, read_authors, read_contest, with_graph


def run_planning(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Generate an instance and plan it; return its lower bound, and nodes and seconds by arm.

    The result of `auto` depends on the speed of the machine, so it is among the timings.
    """
    began = working_time()
    group = InstanceGroup(
        PublishedFigure(arguments["figure"]),
        GraphKind(arguments["graph"]),
        arguments["density"],
        arguments["applications"],
    )
    instance = draw(base_of(arguments["source"]), group, arguments["part"], arguments["seed"])
    _compiled()
    nodes, seconds = {}, {}
    for arm in arms(group.figure):
        nodes[arm.name], seconds[arm.name] = _planned(instance, arm, arguments["auto_seconds"])
    auto_nodes = nodes.pop(AUTO)
    return {
        "totals": {"lower_bound": lower_bound(instance), "limits": len(instance.affinity), "nodes": nodes},
        "timings": {"auto_nodes": auto_nodes, "seconds": seconds, "run_seconds": working_time() - began},
    }


@lru_cache(maxsize=2)
def base_of(source: str) -> Instance:
    """Return the base of generated instances, read once in each process; curves are those of [3] section 5.1."""
    if Path(source).is_dir():
        return read_contest(source, nodes=PAPER_NODES, self_limits=False)
    return read_authors(source)


def draw(base: Instance, group: InstanceGroup, part: int, seed: int) -> Instance:
    """Return an instance of a group. Constant and varying demand have the same graphs."""
    words = [seed, part, group.applications or 0, round(1e6 * group.density)]
    own = int(np.random.SeedSequence(words).generate_state(1)[0])
    if group.applications is None:
        return with_graph(base, group.graph, group.density, own)
    return larger_instance(base, group.applications, group.graph, group.density, own)


@lru_cache(maxsize=1)
def _compiled() -> None:
    """Compile all kernels once in each process, so that compilation does not use the time of `auto`."""
    warm_up_provisioning()


def _planned(instance: Instance, arm: AlgorithmArm, auto_seconds: float) -> tuple[int, float]:
    """Return nodes and seconds of a plan without faults."""
    limit = auto_seconds if arm.algorithm == AUTO else None
    began = working_time()
    plan = provision(instance, arm.algorithm, rules=arm.rules, time_limit=limit)
    seconds = working_time() - began
    faults = plan.faults()
    if faults:
        raise PlbError(f"{instance.name}, {arm.name}: {faults[0]}")
    return plan.nodes, seconds
