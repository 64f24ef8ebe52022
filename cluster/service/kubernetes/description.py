"""A cluster of Kubernetes as events for an engine: what has changed since the last time.

A workload is a service, and each of its pods a partition with one replica. A new pod takes the partition of one that is
gone, so that the past of a workload survives evictions and new versions. Pods that may not move are pinned.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, count
from typing import TypeAlias

from cluster.service.documents import Document
from cluster.service.events import (
    ClusterEvent,
    PutNode,
    PutPartition,
    PutService,
    RemoveNode,
    RemovePartition,
    RemoveService,
    ReportLoads,
)
from cluster.service.kubernetes.pods import KubernetesNode, Part, Pod, Resources, amounts, in_units, loads_of

Documents: TypeAlias = dict[tuple[str, str], Document]
"""Documents by kind and name."""
ZONE = "topology.kubernetes.io/zone"
SAFE = "cluster-autoscaler.kubernetes.io/safe-to-evict"
CRITICAL = ("system-cluster-critical", "system-node-critical")
BOUND = ("emptyDir", "hostPath", "persistentVolumeClaim")
"""Volumes whose data an eviction loses, or that bind a pod to a place."""
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PAUSED = {"deactivation_intent": "pause", "deactivation_status": "safety_check_complete"}


def obstacle(pod: Pod) -> str | None:
    """Return why a pod may not be moved, or None."""
    owner, notes, spec = pod.owner, pod.metadata.annotations, pod.spec
    if "kubernetes.io/config.mirror" in notes or (owner is not None and owner.kind == "Node"):
        return "static pod"
    if owner is None:
        return "no controller"
    if owner.kind in ("DaemonSet", "Job"):
        return f"pod of a {owner.kind}"
    if pod.metadata.deletion_timestamp is not None or pod.status.get("phase") != "Running":
        return "not running"
    if spec.priority_class_name in CRITICAL:
        return "critical for the system"
    if notes.get(SAFE) == "false":
        return "annotation safe-to-evict"
    if notes.get(SAFE) != "true" and any(kind in volume for volume in spec.volumes for kind in BOUND):
        return "volumes"
    is_spread = any(rule.get("whenUnsatisfiable") == "DoNotSchedule" for rule in spec.topology_spread_constraints)
    if is_spread or any(rules and rules.get(REQUIRED) for rules in (spec.affinity or {}).values()):
        return "rules on its place that plans do not know"
    return None


def takes(node: KubernetesNode, pod: Pod) -> bool:
    """Return whether the node selector and the tolerations of a pod allow a node."""
    if any(node.metadata.labels.get(key) != value for key, value in pod.spec.node_selector.items()):
        return False
    taints = [taint for taint in node.spec.taints if taint.get("effect") in ("NoSchedule", "NoExecute")]
    return all(any(tolerates(rule, taint) for rule in pod.spec.tolerations) for taint in taints)


def tolerates(rule: Part, taint: Part) -> bool:
    """Return whether a toleration is one of a taint."""
    exists, key = rule.get("operator") == "Exists", rule.get("key") or ""
    has_key = key == taint.get("key") or (exists and not key)
    has_value = exists or (rule.get("value") or "") == (taint.get("value") or "")
    return has_key and has_value and rule.get("effect") in (None, "", taint.get("effect"))


class KubernetesCluster:
    """What an engine was told of a cluster; `metrics` are the names of its metrics."""

    def __init__(self, metrics: Sequence[str]) -> None:
        self._metrics = tuple(metrics)
        self._documents: Documents = {}
        """What was told."""
        self._partitions: dict[str, str] = {}
        """The partition of each pod, by namespace and name."""
        self.pods: dict[str, Pod] = {}
        """The pods that are there, by partition."""
        self.requests: dict[str, Resources] = {}
        """What each of them asks for, by partition."""

    def events(self, nodes: Sequence[KubernetesNode], pods: Iterable[Pod]) -> list[ClusterEvent]:
        """Return what has changed; new pods have the loads that they request until their usage is reported."""
        names = {node.metadata.name for node in nodes}
        phases = ("Running", "Pending")
        self._assign([pod for pod in pods if pod.spec.node_name in names and pod.status.get("phase") in phases])
        before, self._documents = self._documents, dict(self._described(nodes))
        puts = {"node": PutNode, "service": PutService, "partition": PutPartition}
        removes = {"node": RemoveNode, "service": RemoveService, "partition": RemovePartition}
        changed = [key for key, document in self._documents.items() if before.get(key) != document]
        events: list[ClusterEvent] = [puts[kind](**{kind: self._documents[kind, name]}) for kind, name in changed]  # type: ignore[arg-type, call-arg]
        events += [removes[kind](name=name) for kind, name in reversed(before) if (kind, name) not in self._documents]
        new = [name for kind, name in changed if kind == "partition" and (kind, name) not in before]
        return [*events, self._report(new, {}, None)]

    def usage(self, used: Mapping[str, Resources], at: float) -> ReportLoads:
        """Return what pods used at a time, by namespace and name."""
        return self._report([name for key, name in self._partitions.items() if key in used], used, at)

    def _report(self, partitions: Sequence[str], used: Mapping[str, Resources], at: float | None) -> ReportLoads:
        """Return the loads of the pods of partitions: what they use, and where that is not known, request."""
        pods, loads = [self.pods[name] for name in partitions], list[list[float]]()
        for name, pod in zip(partitions, pods, strict=True):
            load = loads_of(self._metrics, {**self.requests[name], **used.get(pod.metadata.key, {})})
            loads.append([load.get(metric, 0.0) for metric in self._metrics])
        nodes = [str(pod.spec.node_name) for pod in pods]
        return ReportLoads(partitions=[*partitions], nodes=nodes, loads=loads, at=at)

    def _assign(self, pods: Sequence[Pod]) -> None:
        """Give each pod a partition: its own, that of a pod of its workload that is gone or ends, or a new one."""
        before, self._partitions, self.pods = self._partitions, {}, {}
        ending = {pod.metadata.key for pod in pods if pod.metadata.deletion_timestamp is not None}
        held = {before.get(pod.metadata.key) for pod in pods if pod.metadata.key not in ending}
        free: dict[str, list[str]] = defaultdict(list)
        for name in before.values():
            if name not in held:
                free[name.rpartition("/")[0]].append(name)
        names: dict[str, Iterator[str]] = {}
        for pod in sorted(pods, key=lambda pod: (pod.metadata.key in ending, pod.metadata.key)):
            workload, partition = pod.workload, before.get(pod.metadata.key)
            new = names.setdefault(workload, chain(free[workload], map(f"{workload}/{{}}".format, count())))
            if partition is None or partition in self.pods:
                partition = next(name for name in new if name not in self.pods and name not in held)
            self._partitions[pod.metadata.key], self.pods[partition] = partition, pod
        self.requests = {name: pod.requests() for name, pod in self.pods.items()}

    def _described(self, nodes: Sequence[KubernetesNode]) -> Iterator[tuple[tuple[str, str], Document]]:
        """Yield the documents of the cluster: nodes, services, partitions."""
        for node in nodes:
            yield ("node", node.metadata.name), self._node(node)
        blocked: dict[str, list[str]] = {}
        for workload, pod in {pod.workload: pod for pod in self.pods.values()}.items():
            rules = repr((pod.spec.node_selector, pod.spec.tolerations))
            if rules not in blocked:
                blocked[rules] = [node.metadata.name for node in nodes if not takes(node, pod)]
            yield ("service", workload), {"name": workload, "stateful": False, "blocked_nodes": blocked[rules]}
        for name, pod in self.pods.items():
            replica = {"role": "instance", "node": pod.spec.node_name, "pinned": obstacle(pod) is not None}
            yield ("partition", name), {"name": name, "service": pod.workload, "replicas": [replica]}

    def _node(self, node: KubernetesNode) -> Document:
        """Return the document of a node; it has 0 of a resource that it does not name."""
        free = amounts(node.status.allocatable, f"node {node.metadata.name}", "allocatable")
        zone = node.metadata.labels.get(ZONE)
        return {
            "name": node.metadata.name,
            "capacities": {name: in_units(name, free[name]) if name in free else 0.0 for name in self._metrics},
            "fault_domain": None if zone is None else f"fd:/{zone}",
            "up": all(part.get("status") == "True" for part in node.status.conditions if part.get("type") == "Ready"),
            **(PAUSED if node.spec.unschedulable else {}),
        }
