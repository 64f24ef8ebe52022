"""Pods and nodes as Kubernetes describes them, as far as placement needs them, and the resources that they ask for.

Unknown fields are ignored, as every version of Kubernetes adds fields.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime
from fractions import Fraction
from typing import Generic, TypeAlias, TypeVar

from msgspec import Struct, field

from plb.errors import InvalidValueError
from plb.model.documents import Document
from plb.validation import check_mapping

Resources: TypeAlias = dict[str, Fraction]
"""Amounts by resource, in the units of Kubernetes: cores, bytes, pieces."""
Item = TypeVar("Item")

IN_MIB = ("memory", "ephemeral-storage", "storage")
"""Resources that metrics measure in MiB, besides all resources that begin with ``hugepages-``."""
SUFFIXES: Mapping[str, Fraction] = {
    "": Fraction(1),
    **{suffix: Fraction(1000) ** power for power, suffix in enumerate("num", -3)},
    **{suffix: Fraction(1000) ** power for power, suffix in enumerate("kMGTPE", 1)},
    **{f"{suffix}i": Fraction(1024) ** power for power, suffix in enumerate("KMGTPE", 1)},
}
"""What each suffix stands for."""
PATTERN = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:[eE]([+-]?\d{1,2})|([numkMGTPE]|[KMGTPE]i)?)", re.ASCII)
LONGEST = 100
"""Most letters of a quantity."""
ALLOWED = 'a quantity of Kubernetes, such as "500m", "512Mi" or "1e3"'


class Owner(Struct):
    """What a pod belongs to."""

    kind: str
    name: str
    controller: bool = False


class Metadata(Struct, rename="camel"):
    """Name and labels of an object."""

    name: str
    namespace: str = "default"
    uid: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: list[Owner] = []
    deletion_timestamp: str | None = None

    @property
    def key(self) -> str:
        """Namespace and name."""
        return f"{self.namespace}/{self.name}"


class Container(Struct, rename="camel"):
    """A container of a pod."""

    resources: Document = {}
    restart_policy: str | None = None


class PodSpec(Struct, rename="camel"):
    """What a pod wants."""

    containers: list[Container]
    init_containers: list[Container] = []
    overhead: Document = {}
    node_name: str | None = None
    node_selector: dict[str, str] = {}
    affinity: dict[str, Document | None] | None = None
    tolerations: list[Document] = []
    topology_spread_constraints: list[Document] = []
    priority_class_name: str | None = None
    volumes: list[Document] = []


class Pod(Struct):
    """A pod."""

    metadata: Metadata
    spec: PodSpec
    status: Document = {}

    @property
    def owner(self) -> Owner | None:
        """Its controller."""
        return next((owner for owner in self.metadata.owner_references if owner.controller), None)

    @property
    def workload(self) -> str:
        """Name of the service of its owner: ``namespace/Kind/name``, with the Deployment in place of its ReplicaSet."""
        owner = self.owner or Owner("Pod", self.metadata.name)
        ending = f"-{self.metadata.labels.get('pod-template-hash', '')}"
        if owner.kind == "ReplicaSet" and len(ending) > 1 and owner.name.endswith(ending):
            return f"{self.metadata.namespace}/Deployment/{owner.name.removesuffix(ending)}"
        return f"{self.metadata.namespace}/{owner.kind}/{owner.name}"

    def requests(self) -> Resources:
        """Return what the scheduler keeps free for it: of its containers together, or of an init container if more.

        It is one of the pods that a node can have.
        """
        item, sidecars, at_once = f"pod {self.metadata.key}", Resources(), list[Resources]()
        for container in self.spec.init_containers:
            requested = combined([sidecars, amounts(container.resources.get("requests"), item, "requests")])
            sidecars = requested if container.restart_policy == "Always" else sidecars
            at_once.append(requested)
        containers = [
            amounts(container.resources.get("requests"), item, "requests") for container in self.spec.containers
        ]
        at_once.append(combined([sidecars, *containers]))
        names = {name for requested in at_once for name in requested}
        most = {name: max(requested.get(name, Fraction(0)) for requested in at_once) for name in names}
        return combined([most, amounts(self.spec.overhead, item, "overhead"), {"pods": Fraction(1)}])


class KubernetesNodeSpec(Struct):
    """What a node is to do."""

    unschedulable: bool = False
    taints: list[Document] = []


class NodeStatus(Struct):
    """How a node is."""

    allocatable: Document = {}
    conditions: list[Document] = []


class KubernetesNode(Struct):
    """A node."""

    metadata: Metadata
    spec: KubernetesNodeSpec = field(default_factory=KubernetesNodeSpec)
    status: NodeStatus = field(default_factory=NodeStatus)


class PodMetrics(Struct):
    """What a pod uses, from metrics.k8s.io."""

    metadata: Metadata
    timestamp: datetime
    containers: list[Document] = []

    def used(self) -> Resources:
        """Return the summed usage of the containers."""
        item = f"usage of pod {self.metadata.key}"
        return combined(amounts(container.get("usage"), item, "usage") for container in self.containers)


class Listed(Struct, Generic[Item]):
    """A list of objects."""

    items: list[Item]


def exactly(quantity: object, item: str, field: str) -> Fraction:
    """Return the number that a quantity stands for; `item` and `field` name it in errors (`InvalidValueError`)."""
    text = quantity if isinstance(quantity, str) else repr(quantity)
    match = PATTERN.fullmatch(text) if len(text) <= LONGEST else None
    if match is None:
        raise InvalidValueError(item, field, quantity, ALLOWED)
    digits, exponent, suffix = match.groups()
    scale = SUFFIXES[suffix or ""] if exponent is None else Fraction(10) ** int(exponent)
    return Fraction(digits) * scale


def amounts(quantities: Document | None, item: str, name: str) -> Resources:
    """Return quantities by resource as exact amounts of at least 0; `item` and `name` name them in errors."""
    by_resource = check_mapping(item, name, quantities or {}, "a mapping of resources to quantities")
    return {key: max(Fraction(0), exactly(value, item, f"{name}[{key}]")) for key, value in by_resource.items()}


def combined(parts: Iterable[Resources]) -> Resources:
    """Return the sum of amounts."""
    total: Resources = defaultdict(Fraction)
    for part in parts:
        for name, amount in part.items():
            total[name] += amount
    return dict(total)


def loads_of(metrics: Iterable[str], resources: Resources) -> dict[str, float]:
    """Return the loads of a pod by metric; a metric has the name of a resource."""
    return {metric: in_units(metric, resources[metric]) for metric in metrics if metric in resources}


def in_units(resource: str, amount: Fraction) -> float:
    """Return an amount of a resource in the unit of its metric: MiB for bytes."""
    is_bytes = resource in IN_MIB or resource.startswith("hugepages-")
    return float(amount / 2**20 if is_bytes else amount)
