"""A cluster of Kubernetes as events for an engine: what has changed since the last time.

A workload is a service, and each of its pods a partition with one replica. A new pod takes the partition of one that is
gone, so that the past of a workload survives evictions and new versions. Pods that may not move are pinned.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, count
from typing import TypeAlias

from cluster.service import events
from cluster.service.kubernetes.pods import KubernetesNode, Pod, Resources, amounts, in_units, loads_of
from cluster.service.kubernetes.sources import Observed
from plb.errors import ConflictError
from plb.model.documents import Document

Key: TypeAlias = tuple[str, str]
"""Kind and name of a node, a service or a partition."""
Send: TypeAlias = Callable[[Sequence[events.ClusterEvent]], Sequence[str | None]]
"""Has events applied in their order, and returns for each why it was refused, or None."""
MOST_NAMED = 3
"""Most nodes that an error names."""
MOST_LOADS = 500
"""Most loads of an event, so that a service answers others meanwhile."""
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


def tolerates(rule: Document, taint: Document) -> bool:
    """Return whether a toleration is one of a taint."""
    exists, key = rule.get("operator") == "Exists", rule.get("key") or ""
    has_key = key == taint.get("key") or (exists and not key)
    has_value = exists or (rule.get("value") or "") == (taint.get("value") or "")
    return has_key and has_value and rule.get("effect") in (None, "", taint.get("effect"))


def workload_of(partition: str) -> str:
    """Return the workload that a partition belongs to; its name is ``workload/number``."""
    return partition.rpartition("/")[0]


def partitions_of(pods: Iterable[Pod], places: Mapping[str, str]) -> dict[str, str]:
    """Return the partition of each pod, by namespace and name: one of its workload on its node.

    `places`: the node of each partition. Partitions without a pod have their own names as keys.
    """
    free: dict[tuple[str, str | None], list[str]] = defaultdict(list)
    for partition, node in places.items():
        free[workload_of(partition), node].append(partition)
    partitions: dict[str, str] = {}
    for pod in pods:
        if names := free[pod.workload, pod.spec.node_name]:
            partitions[pod.metadata.key] = names.pop(0)
    return partitions | {name: name for names in free.values() for name in names}


class KubernetesCluster:
    """What an engine was told of a cluster of Kubernetes, and tells it what has changed.

    `metrics`: names of the engine's metrics; `nodes`: names of the nodes that the engine has already; `partitions`:
    names of its partitions, by namespace and name of the pod.
    """

    def __init__(
        self, metrics: Sequence[str], nodes: Iterable[str] = (), partitions: Mapping[str, str] | None = None
    ) -> None:
        self._metrics = tuple(metrics)
        self.partitions = dict(partitions or {})
        """The partition of each pod, by namespace and name."""
        names = self.partitions.values()
        keys = [("node", name) for name in nodes] + [("service", workload_of(name)) for name in names]
        self._documents: dict[Key, Document | None] = dict.fromkeys([*keys, *(("partition", name) for name in names)])
        """What was told, by kind and name; None: the engine may have another document."""
        self.pods: dict[str, Pod] = {}
        """The pods that are there, by partition."""
        self.requests: dict[str, Resources] = {}
        """Resources that the pod of each partition requests."""
        self.reported: list[float] = []
        """Times of the first and the latest usage, in seconds."""

    def tell(self, observed: Observed, now: float, send: Send) -> float:
        """Send what has changed, then loads; return the time of the latest usage, or without any `now`, in seconds.

        Pods have the loads that they request until their usage is known. Refused changes are sent again next time. A
        cluster that has none of the nodes that were told raises `ConflictError`.
        """
        before = self._documents
        changes = self._changes(observed)
        for (kind, name), problem in zip(changes, send([*changes.values()]), strict=True):
            if problem is not None and (kind, name) in self._documents:
                self._forget(kind, name)
        usages = [(now if at is None else at, used) for at, used in observed.usages]
        now, latest = usages[-1] if usages else (now, {})
        new_partitions = [name for name in self.pods if before.get(("partition", name)) is None]
        requested = [name for name in new_partitions if self.pods[name].metadata.key not in latest]
        send([*self._reports(requested, {}, None), *self._usage_reports(usages)])
        return now

    def _usage_reports(self, usages: Iterable[tuple[float, dict[str, Resources]]]) -> Iterator[events.ReportLoads]:
        """Yield what pods used, by namespace and name, at times after the latest that was told."""
        for at, used in usages:
            if not self.reported or at > self.reported[-1]:
                self.reported = [*self.reported[:1], at]
                yield from self._reports([name for key, name in self.partitions.items() if key in used], used, at)

    def _changes(self, observed: Observed) -> dict[Key, events.ClusterEvent]:
        """Return the events that make the engine's cluster the observed one."""
        names, phases = {node.metadata.name for node in observed.nodes}, ("Running", "Pending")
        before = self._documents
        told_nodes = [name for kind, name in before if kind == "node"]
        if told_nodes and names.isdisjoint(told_nodes):
            few = ", ".join(sorted(told_nodes)[:MOST_NAMED])
            raise ConflictError(
                f"this is another cluster of Kubernetes: none of the nodes that were told is there ({few})"
            )
        self._assign(
            [pod for pod in observed.pods if pod.spec.node_name in names and pod.status.get("phase") in phases]
        )
        after = dict(self._described(observed.nodes))
        changes: dict[Key, events.ClusterEvent] = {
            (kind, name): events.ITEMS[kind][0](**{kind: document})  # type: ignore[arg-type]
            for (kind, name), document in after.items()
            if before.get((kind, name)) != document
        }
        changes |= {
            (kind, name): events.ITEMS[kind][1](name=name)  # type: ignore[call-arg]
            for kind, name in reversed(before)
            if (kind, name) not in after
        }
        self._documents = {**after}
        return changes

    def _forget(self, kind: str, name: str) -> None:
        """Note that an item was refused, so that it is described again, and that a partition has no pod."""
        self._documents[kind, name] = None
        if kind == "partition":
            del self.partitions[self.pods.pop(name).metadata.key], self.requests[name]

    def _reports(
        self, partitions: Sequence[str], used: Mapping[str, Resources], at: float | None
    ) -> Iterator[events.ReportLoads]:
        """Yield the loads of the pods of partitions at a time: `used`, by pod, where it is known, else the request."""
        for start in range(0, len(partitions), MOST_LOADS):
            names, loads = [*partitions[start : start + MOST_LOADS]], list[list[float]]()
            pods = [self.pods[name] for name in names]
            for name, pod in zip(names, pods, strict=True):
                load = loads_of(self._metrics, {**self.requests[name], **used.get(pod.metadata.key, {})})
                loads.append([load.get(metric, 0.0) for metric in self._metrics])
            nodes = [str(pod.spec.node_name) for pod in pods]
            yield events.ReportLoads(partitions=names, nodes=nodes, loads=loads, at=at, now=at)

    def _assign(self, pods: Sequence[Pod]) -> None:
        """Give each pod its own partition, or one that a gone or ending pod of its workload leaves, or a new one."""
        before, self.partitions, self.pods = self.partitions, {}, {}
        ending = {pod.metadata.key for pod in pods if pod.metadata.deletion_timestamp is not None}
        held = {before.get(pod.metadata.key) for pod in pods if pod.metadata.key not in ending}
        free: dict[str, list[str]] = defaultdict(list)
        for name in before.values():
            if name not in held:
                free[workload_of(name)].append(name)
        names: dict[str, Iterator[str]] = {}
        for pod in sorted(pods, key=lambda pod: (pod.metadata.key in ending, pod.metadata.key)):
            workload, partition = pod.workload, before.get(pod.metadata.key)
            candidates = names.setdefault(workload, chain(free[workload], map(f"{workload}/{{}}".format, count())))
            if partition is None or partition in self.pods:
                partition = next(name for name in candidates if name not in self.pods and name not in held)
            self.partitions[pod.metadata.key], self.pods[partition] = partition, pod
        self.requests = {name: pod.requests() for name, pod in self.pods.items()}

    def _described(self, nodes: Sequence[KubernetesNode]) -> Iterator[tuple[Key, Document]]:
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
