"""Pods and nodes as Kubernetes describes them, as far as placement needs them, and the resources that they ask for.

Unknown fields are ignored, as every version of Kubernetes has more of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any, TypeAlias

from msgspec import Struct, field

from cluster.service.kubernetes.quantities import Quantity, exactly

Resources: TypeAlias = dict[str, Fraction]
"""Amounts by resource, in the units of Kubernetes: cores, bytes, pieces."""
Quantities: TypeAlias = dict[str, Quantity]

MIB = 2**20
IN_MIB = ("memory", "ephemeral-storage", "storage")
"""Resources that metrics have in MiB; so are those that begin with ``hugepages-``."""
REQUESTED = "requests."
"""Begins the name of a metric that counts what pods ask for, not what they use."""
PODS = "pods"
"""The metric that counts pods."""


class Owner(Struct):
    """What a pod belongs to."""

    kind: str
    name: str
    controller: bool = False


class Metadata(Struct, rename="camel"):
    """Name and labels of an object."""

    name: str = ""
    namespace: str = "default"
    uid: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[Owner] | None = None
    deletion_timestamp: str | None = None

    @property
    def key(self) -> str:
        """Namespace and name."""
        return f"{self.namespace}/{self.name}"


class Asked(Struct):
    """The resources of a container."""

    requests: Quantities | None = None
    limits: Quantities | None = None


class Container(Struct, rename="camel"):
    """A container of a pod."""

    resources: Asked = field(default_factory=Asked)
    restart_policy: str | None = None


class Term(Struct, rename="camel"):
    """A requirement of an expression of labels."""

    key: str
    operator: str
    values: list[str] | None = None


class Terms(Struct, rename="camel"):
    """Requirements that all hold."""

    match_expressions: list[Term] | None = None
    match_fields: list[Term] | None = None


class NodeSelector(Struct, rename="camel"):
    """Terms of which one holds."""

    node_selector_terms: list[Terms]


class NodeAffinity(Struct, rename="camel"):
    """The nodes that a pod requires."""

    required: NodeSelector | None = field(name="requiredDuringSchedulingIgnoredDuringExecution", default=None)


class PodRule(Struct, rename="camel"):
    """A rule between pods."""

    topology_key: str = ""
    label_selector: dict[str, Any] | None = None


class PodAffinity(Struct, rename="camel"):
    """The rules between pods that a pod requires."""

    required: list[PodRule] | None = field(name="requiredDuringSchedulingIgnoredDuringExecution", default=None)


class Affinity(Struct, rename="camel"):
    """What a pod requires of nodes and of other pods."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class Toleration(Struct):
    """A taint that a pod tolerates."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class Spread(Struct, rename="camel"):
    """A constraint on the spread of pods over a topology."""

    when_unsatisfiable: str = "DoNotSchedule"


class PodSpec(Struct, rename="camel"):
    """What a pod wants."""

    containers: list[Container]
    init_containers: list[Container] | None = None
    overhead: Quantities | None = None
    node_name: str | None = None
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: list[Toleration] | None = None
    topology_spread_constraints: list[Spread] | None = None
    priority_class_name: str | None = None
    volumes: list[dict[str, Any]] | None = None


class PodStatus(Struct):
    """How a pod is."""

    phase: str = "Pending"


class Pod(Struct):
    """A pod."""

    metadata: Metadata
    spec: PodSpec
    status: PodStatus = field(default_factory=PodStatus)

    @property
    def owner(self) -> Owner | None:
        """Its controller."""
        return next((owner for owner in self.metadata.owner_references or () if owner.controller), None)

    @property
    def workload(self) -> str:
        """Name of the service of its owner: ``namespace/Kind/name``, with the Deployment in place of its ReplicaSet."""
        owner = self.owner
        if owner is None:
            return f"{self.metadata.namespace}/Pod/{self.metadata.name}"
        ending = f"-{(self.metadata.labels or {}).get('pod-template-hash', '')}"
        if owner.kind == "ReplicaSet" and len(ending) > 1 and owner.name.endswith(ending):
            return f"{self.metadata.namespace}/Deployment/{owner.name.removesuffix(ending)}"
        return f"{self.metadata.namespace}/{owner.kind}/{owner.name}"

    def requests(self) -> Resources:
        """Return what the scheduler keeps free for it: of its containers together, or of an init container if more."""
        item = f"pod {self.metadata.key}"
        total, of_sidecars, most = Resources(), Resources(), Resources()
        for container in self.spec.init_containers or ():
            asked = amounts(container.resources.requests, item, "requests")
            if container.restart_policy == "Always":
                of_sidecars = combined([of_sidecars, asked])
                asked = of_sidecars
            else:
                asked = combined([of_sidecars, asked])
            most = {name: max(most.get(name, Fraction(0)), asked.get(name, Fraction(0))) for name in {**most, **asked}}
        of_containers = [amounts(each.resources.requests, item, "requests") for each in self.spec.containers]
        total = combined([of_sidecars, *of_containers])
        most = {name: max(most.get(name, Fraction(0)), total.get(name, Fraction(0))) for name in {**most, **total}}
        return combined([most, amounts(self.spec.overhead, item, "overhead")])


class Taint(Struct):
    """What keeps pods from a node."""

    key: str
    effect: str
    value: str = ""


class NodeSpec(Struct):
    """What a node is to do."""

    unschedulable: bool = False
    taints: list[Taint] | None = None


class Condition(Struct):
    """A condition of a node."""

    type: str
    status: str


class NodeStatus(Struct):
    """How a node is."""

    allocatable: Quantities = field(default_factory=dict)
    conditions: list[Condition] | None = None


class Node(Struct):
    """A node."""

    metadata: Metadata
    spec: NodeSpec = field(default_factory=NodeSpec)
    status: NodeStatus = field(default_factory=NodeStatus)


class Usage(Struct):
    """What a container uses."""

    usage: Quantities


class PodMetrics(Struct):
    """What a pod uses, from metrics.k8s.io."""

    metadata: Metadata
    containers: list[Usage]
    timestamp: str

    def used(self) -> Resources:
        """Return what its containers use together."""
        item = f"usage of pod {self.metadata.key}"
        return combined(amounts(container.usage, item, "usage") for container in self.containers)


class NodeList(Struct):
    """The nodes of a cluster."""

    items: list[Node]
    metadata: dict[str, Any] | None = None


class PodList(Struct):
    """The pods of a cluster."""

    items: list[Pod]
    metadata: dict[str, Any] | None = None


class PodMetricsList(Struct):
    """What the pods of a cluster use."""

    items: list[PodMetrics]
    metadata: dict[str, Any] | None = None


def amounts(quantities: Mapping[str, Quantity] | None, item: str, name: str) -> Resources:
    """Return quantities by resource as exact amounts of at least 0; `item` and `name` name them in errors."""
    resources = {key: exactly(value, item, f"{name}[{key}]") for key, value in (quantities or {}).items()}
    return {key: max(Fraction(0), amount) for key, amount in resources.items()}


def combined(parts: Iterable[Resources]) -> Resources:
    """Return the sum of amounts."""
    total: Resources = defaultdict(Fraction)
    for part in parts:
        for name, amount in part.items():
            total[name] += amount
    return dict(total)


def loads_of(metrics: Iterable[str], requests: Resources, used: Resources | None = None) -> dict[str, float]:
    """Return the loads of a pod by metric, in the units of metrics; metrics of no resource of the pod are left out.

    A metric has the name of a resource, and counts what is used, or if that is not known, requested. With
    ``requests.`` in front it counts what is requested. ``pods`` counts 1.
    """
    loads: dict[str, float] = {}
    for metric in metrics:
        resource = metric.removeprefix(REQUESTED)
        source = requests if used is None or resource != metric or resource not in used else used
        if resource == PODS:
            loads[metric] = 1.0
        elif resource in source:
            loads[metric] = in_units(resource, source[resource])
    return loads


def in_units(resource: str, amount: Fraction) -> float:
    """Return an amount of a resource in the unit of its metric: MiB for bytes."""
    is_bytes = resource in IN_MIB or resource.startswith("hugepages-")
    return float(amount / MIB if is_bytes else amount)
