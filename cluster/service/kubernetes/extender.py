"""An extender of the scheduler of Kubernetes: which nodes may take a pod (filter), and which are best (prioritize).

A pod becomes a replica of a partition that the engine has only while it scores the nodes (`score_new`). Thus a question
changes nothing, whatever the scheduler decides afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct, field

from cluster.service.interfaces.operations import Call, Operation
from cluster.service.kubernetes.pods import Pod, loads_of
from cluster.service.service import LiveCluster
from plb import NodeScores, Partition
from plb.array_types import Int
from plb.errors import PlbError, UnknownNameError
from plb.model.rules import NO_REFUSAL, Rule
from plb.phrasing import rule_in_words

BEST = 10
"""Highest score of a node: MaxExtenderPriority."""
ANY_WORKLOAD = "kubernetes"
"""Service of pods whose workload the cluster does not know."""
FREED_BY_PREEMPTION = (Rule.CAPACITY, Rule.APPLICATION_CAPACITY, Rule.THROTTLING, Rule.RANGE)
"""Rules that a node may satisfy once other pods have left it."""
TINY = np.finfo(np.float64).tiny
NOT_DESCRIBED = "the placement service does not know the node"


class Arguments(Struct, rename="pascal"):
    """ExtenderArgs: a pod, and the names of nodes."""

    pod: Pod
    node_names: list[str]
    """Names of the nodes to choose from; the scheduler sends them with ``nodeCacheCapable: true``."""


class FilterResult(Struct, rename="pascal"):
    """ExtenderFilterResult: the nodes that may take the pod, and why the others may not."""

    node_names: list[str] | None = None
    failed_nodes: dict[str, str] = field(default_factory=dict)
    """Reasons by node; the preemption of other pods may help."""
    failed_and_unresolvable_nodes: dict[str, str] = field(default_factory=dict)
    """Reasons by node that no preemption removes."""
    error: str = ""
    """Why there is no result."""


class HostPriority(Struct, rename="pascal"):
    """The score of a node, from 0 to 10."""

    host: str
    score: int


def scores_for(live: LiveCluster, pod: Pod) -> NodeScores:
    """Return the scores of all nodes for a pod.

    Raise `PlbError` if a quantity of the pod is invalid, or the cluster knows neither its workload nor
    `ANY_WORKLOAD`.
    """
    engine, now, item = live.reader.engine, live.reader.state.now, f"pod {pod.metadata.key}"
    services = [name for name in (pod.workload, ANY_WORKLOAD) if name in engine.service_names]
    if not services:
        raise UnknownNameError("service", pod.workload, (ANY_WORKLOAD,), item)
    loads = loads_of(engine.config.metric_names, pod.requests())
    partition = Partition(item, service=services[0], created=now)
    cache_key = ("pod", services[0], *loads.items())  # prioritize follows filter, and needs the same scores
    return live.kept(cache_key, lambda engine: engine.score_new(partition, loads=loads, now=now))


def rows_of(scores: NodeScores, names: Sequence[str]) -> Int:
    """Return the indices of the nodes `names`, (n,), in the scores of N nodes; N for one that is not known."""
    index = dict(zip(scores.nodes, range(len(scores.nodes)), strict=True))
    return np.array([index.get(name, len(index)) for name in names], np.int64)


def filtered(scores: NodeScores, names: Sequence[str]) -> FilterResult:
    """Return which of the nodes `names` may take the replica that was scored.

    If none may, the nodes remain that are ruled out only by rules that placement relaxes.
    """
    rows = rows_of(scores, names)
    fits, soft = (np.append(mask, False)[rows] for mask in (scores.fits, scores.soft))
    kept = fits if fits.any() else soft
    result = FilterResult([names[position] for position in np.flatnonzero(kept).tolist()])
    for position in np.flatnonzero(~kept).tolist():
        row, rule, reason = int(rows[position]), NO_REFUSAL, NOT_DESCRIBED
        if row < len(scores.nodes):
            rule = int(scores.rule[row])
            name = scores.by_extensions[row] if rule == NO_REFUSAL else Rule(rule).name.lower()
            reason = f"{rule_in_words(name)} (placement service)"
        nodes = result.failed_nodes if rule in FREED_BY_PREEMPTION else result.failed_and_unresolvable_nodes
        nodes[names[position]] = reason
    return result


def prioritized(scores: NodeScores, names: Sequence[str]) -> list[HostPriority]:
    """Return the scores of the nodes `names`: 10 for the lowest energy, and 0 to 9 in proportion for others.

    Nodes that are ruled out or not known have 0.
    """
    energy = np.append(scores.energy, np.inf)[rows_of(scores, names)]
    fits, points = np.isfinite(energy), np.zeros(len(names), np.int64)
    if fits.any():
        above = energy[fits] - energy[fits].min()
        points[fits] = np.minimum(BEST - BEST * above / max(above.max(), TINY), BEST - 1)
        points[fits] += above == 0
    return [HostPriority(name, score) for name, score in zip(names, points.tolist(), strict=True)]


async def filter_nodes(call: Call) -> FilterResult:
    """Return which nodes may take a pod, to the scheduler of Kubernetes; an error is in the result."""
    try:
        return filtered(scores_for(call.live, call.body.pod), call.body.node_names)
    except PlbError as error:
        return FilterResult(error=str(error))


async def prioritize_nodes(call: Call) -> list[HostPriority]:
    """Return how good nodes are for a pod, to the scheduler of Kubernetes."""
    return prioritized(scores_for(call.live, call.body.pod), call.body.node_names)


PATH = "/v1/clusters/{cluster}/kubernetes"
OPERATIONS = (
    Operation("POST", f"{PATH}/filter", filter_nodes, body=Arguments, answer=FilterResult),
    Operation("POST", f"{PATH}/prioritize", prioritize_nodes, body=Arguments, answer=list[HostPriority]),
)
"""What the scheduler asks for."""
