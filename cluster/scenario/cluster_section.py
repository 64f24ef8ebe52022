"""Section ``[cluster]`` of a scenario: nodes of one or more kinds."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from cluster.scenario.sections import Section, count, number
from plb import InvalidValueError
from plb.validation import check_number

MOST_NODES = 100_000
"""Maximum number of nodes of a cluster."""


@attrs.frozen(kw_only=True)
class Hardware(Section):
    """The capacities of nodes of one kind.

    Parameters
    ----------
    vcores, memory_gb_per_vcore, disk_gb
        Capacities of the metrics ``cpu``, ``memory`` and ``disk``.
    capacities
        Capacities by metric, instead of the three above; other metrics of the workload are unlimited.
    """

    vcores: float = number(80.0, low_open=True)
    memory_gb_per_vcore: float = number(5.1, low_open=True)
    disk_gb: float = number(5000.0, low_open=True)
    capacities: dict[str, float] | None = None

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        for name, value in (self.capacities or {}).items():
            check_number("cluster", f"capacities.{name}", value)

    @property
    def capacity(self) -> Mapping[str, float]:
        """Capacity of a node by metric."""
        if self.capacities is not None:
            return self.capacities
        return {"cpu": self.vcores, "memory": self.vcores * self.memory_gb_per_vcore, "disk": self.disk_gb}


@attrs.frozen(kw_only=True)
class NodeGroup(Hardware):
    """Nodes of a further kind.

    Parameters
    ----------
    nodes
        Number of nodes.
    vcores, memory_gb_per_vcore, disk_gb, capacities
        As in `Hardware`.
    """

    nodes: int = count(1, low=1, high=MOST_NODES)


@attrs.frozen(kw_only=True)
class ClusterSection(Hardware):
    """The nodes of the cluster, all equal ([1] sections 8.1 and 8.2) except those in groups.

    Parameters
    ----------
    nodes
        Number of nodes, those in groups included.
    upgrade_domains, fault_domains
        Number of domains; the nodes are assigned to them in turn.
    vcores, memory_gb_per_vcore, disk_gb, capacities
        As in `Hardware`, for nodes outside the groups.
    groups
        Nodes of other kinds, such as ``[{ nodes = 8, vcores = 128.0 }]``: the last nodes of the cluster. They have the
        same metrics as the other nodes.
    violation_threshold
        Share of a capacity at which a violation begins.
    copy_gbit_per_second
        Bandwidth at which a move copies data, Gbit/s. Not published; assumed.
    interruption_seconds
        Seconds for which a database is unavailable when its primary changes nodes. Not published; assumed.
    metering_minutes
        Time between two meterings ([1] section 8.1: 10).
    """

    nodes: int = count(40, low=1, high=MOST_NODES)
    upgrade_domains: int = count(10, low=1, high=MOST_NODES)
    fault_domains: int = count(5, low=1, high=MOST_NODES)
    groups: tuple[NodeGroup, ...] = ()
    violation_threshold: float = number(0.95, high=1.0, low_open=True)
    copy_gbit_per_second: float = number(10.0, low_open=True)
    interruption_seconds: float = number(30.0)
    metering_minutes: int = count(10, low=1, high=1440)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        grouped = sum(group.nodes for group in self.groups)
        if grouped > self.nodes:
            raise InvalidValueError("cluster", "groups", grouped, f"at most the {self.nodes} nodes of the cluster")
        for number_of_group, group in enumerate(self.groups):
            if set(group.capacity) != set(self.capacity):
                item, allowed = f"cluster: groups[{number_of_group}]", f"capacities of {sorted(self.capacity)}"
                raise InvalidValueError(item, "capacities", sorted(group.capacity), allowed)

    @property
    def kinds(self) -> tuple[tuple[int, Mapping[str, float]], ...]:
        """Number of nodes and capacity of each kind, in the order of the nodes."""
        plain = self.nodes - sum(group.nodes for group in self.groups)
        return ((plain, self.capacity), *((group.nodes, group.capacity) for group in self.groups))

    @property
    def node_capacities(self) -> list[Mapping[str, float]]:
        """Capacity of each node by metric."""
        return [capacity for nodes, capacity in self.kinds for _ in range(nodes)]

    def total_capacity(self, metric: str) -> float:
        """Return the total capacity of all nodes for a metric that has one."""
        return sum(nodes * capacity[metric] for nodes, capacity in self.kinds)
