"""Sections of a scenario about nodes: ``[cluster]``, ``[faults]`` and ``[upgrades]``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import attrs

from cluster.scenario.sections import Section, count, number, span
from plb import InvalidValueError
from plb.validation import check_number

MOST_NODES = 100_000
"""Maximum number of nodes of a cluster."""


@attrs.frozen(kw_only=True)
class Hardware(Section):
    """The capacities of nodes of one kind."""

    vcores: float = number(80.0, low_open=True)
    """Capacity of the metric ``cpu``."""
    memory_gb_per_vcore: float = number(5.1, low_open=True)
    """Capacity of the metric ``memory`` for each vCore."""
    disk_gb: float = number(5000.0, low_open=True)
    """Capacity of the metric ``disk``."""
    capacities: dict[str, float] | None = None
    """Capacities by metric, instead of the three above; other metrics of the workload are unlimited."""

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
    """Nodes of a further kind."""

    nodes: int = count(1, low=1, high=MOST_NODES)
    """Number of nodes."""


@attrs.frozen(kw_only=True)
class ClusterSection(Hardware):
    """The nodes of the cluster, all equal ([1] sections 8.1 and 8.2) except in groups.

    The fields of `Hardware` are for nodes outside the groups.
    """

    nodes: int = count(40, low=1, high=MOST_NODES)
    """Number of nodes, including the nodes in groups."""
    upgrade_domains: int = count(10, low=1, high=MOST_NODES)
    """Number of upgrade domains; the nodes are assigned to them in turn."""
    fault_domains: int = count(5, low=1, high=MOST_NODES)
    """Number of fault domains; the nodes are assigned to them in turn."""
    groups: tuple[NodeGroup, ...] = ()
    """Nodes of other kinds, such as ``[{ nodes = 8, vcores = 128.0 }]``: the last nodes of the cluster. They have the
    same metrics as the other nodes.
    """
    violation_threshold: float = number(0.95, high=1.0, low_open=True)
    """Share of a capacity at which a violation begins."""
    copy_gbit_per_second: float = number(10.0, low_open=True)
    """Bandwidth at which a move copies data, Gbit/s. Not published; assumed."""
    interruption_seconds: float = number(30.0)
    """Seconds for which a database is unavailable when its primary changes nodes. Not published; assumed."""
    metering_minutes: int = count(10, low=1, high=1440)
    """Time between two meterings ([1] section 8.1: 10)."""

    def __attrs_post_init__(self) -> None:
        """Raise `InvalidValueError` if groups have more nodes than the cluster, or capacities for other metrics."""
        super().__attrs_post_init__()
        grouped = sum(group.nodes for group in self.groups)
        if grouped > self.nodes:
            raise InvalidValueError("cluster", "groups", grouped, f"at most the {self.nodes} nodes of the cluster")
        for index, group in enumerate(self.groups):
            if set(group.capacity) != set(self.capacity):
                item, allowed = f"cluster: groups[{index}]", f"capacities of {sorted(self.capacity)}"
                raise InvalidValueError(item, "capacities", sorted(group.capacity), allowed)

    @property
    def kinds(self) -> tuple[tuple[int, Mapping[str, float]], ...]:
        """Number of nodes, and capacity of a node by metric, of each kind, in the order of the nodes."""
        outside_groups = self.nodes - sum(group.nodes for group in self.groups)
        return ((outside_groups, self.capacity), *((group.nodes, group.capacity) for group in self.groups))

    @property
    def node_capacities(self) -> list[Mapping[str, float]]:
        """Capacity of each node by metric."""
        return [capacity for nodes, capacity in self.kinds for _ in range(nodes)]

    def total_capacity(self, metric: str) -> float:
        """Return the total capacity of all nodes for a metric that has one."""
        return sum(nodes * capacity[metric] for nodes, capacity in self.kinds)


ONE_SECOND = 1 / 60
"""In minutes: the resolution of simulated time."""
ONE_MINUTE = 1 / 1440
"""In days."""


@attrs.frozen(kw_only=True)
class Crash(Section):
    """A node that goes down at a given time."""

    node: str
    """Its name."""
    at_hours: float = span(attrs.NOTHING)
    """Begin, since the start of the run."""
    hours: float = span(attrs.NOTHING, low_open=True)
    """Duration."""


@attrs.frozen(kw_only=True)
class Outage(Section):
    """An outage of all nodes of a fault domain."""

    fault_domain: str
    """Path of the domain, such as ``"fd:/fd0"``, or of a domain above."""
    at_hours: float = span(attrs.NOTHING)
    """Begin, since the start of the run."""
    hours: float = span(attrs.NOTHING, low_open=True)
    """Duration."""


@attrs.frozen(kw_only=True)
class Flapping(Section):
    """A node that repeatedly goes down and comes back."""

    node: str
    """Its name."""
    from_hours: float = span(attrs.NOTHING)
    """Begin of the period in which the node goes down, since the start of the run."""
    until_hours: float = span(attrs.NOTHING)
    """End of the period."""
    up_minutes: float = span(attrs.NOTHING, low=ONE_SECOND)
    """Duration of each time up, at least a second."""
    down_minutes: float = span(attrs.NOTHING, low=ONE_SECOND)
    """Duration of each time down, at least a second; the node goes down first."""

    def __attrs_post_init__(self) -> None:
        """Raise `InvalidValueError` unless the flapping ends after its begin."""
        super().__attrs_post_init__()
        if self.until_hours <= self.from_hours:
            allowed = f"more than from_hours, {self.from_hours:g}"
            raise InvalidValueError("flapping", "until_hours", self.until_hours, allowed)


@attrs.frozen(kw_only=True)
class Faults(Section):
    """Faults of nodes, the same for every policy."""

    days_between_crashes: float | None = number(None, low=ONE_MINUTE)
    """Mean of the exponential time that a node is up between two crashes, at least a minute; None: no random crashes.
    """
    repair_hours: float = span(2.0, low_open=True)
    """Mean duration of a random crash."""
    repair_distribution: Literal["exponential", "lognormal", "constant"] = "exponential"
    """``"exponential"``, ``"lognormal"`` (with `repair_sigma`) or ``"constant"``."""
    repair_sigma: float = number(1.0, high=10.0)
    """Standard deviation of the logarithm of a lognormal repair time, at most 10."""
    crashes: tuple[Crash, ...] = ()
    """Crashes of nodes at given times."""
    outages: tuple[Outage, ...] = ()
    """Outages of fault domains at given times."""
    flapping: tuple[Flapping, ...] = ()
    """Nodes that go down and up again and again in given periods."""
    rebuild_after_minutes: float = span(30.0)
    """Time to wait for a replica on a node that is down before it is built elsewhere (Service Fabric's
    ReplicaRestartWaitDuration: 30).
    """
    remote_storage: bool = True
    """Whether a tenant with a single replica has its data on remote storage, so that it restarts on another node. If
    not, it waits until its node is back.
    """

    @property
    def is_any(self) -> bool:
        """Whether any fault can occur."""
        return self.days_between_crashes is not None or bool(self.crashes or self.outages or self.flapping)


@attrs.frozen(kw_only=True)
class Upgrades(Section):
    """Rolling upgrades, which upgrade one domain after the other."""

    starts_hours: tuple[float, ...] = span(())
    """Begin of each upgrade, since the start of the run; an upgrade waits for the end of the previous one."""
    minutes_per_node: float = span(10.0, low_open=True)
    """Time for which a node is down for its upgrade."""
    nodes_at_once: int = count(2, low=1)
    """Maximum number of nodes of a domain that are drained or down at a time."""
    drain: bool = True
    """Whether nodes are drained before they go down: primaries hand over their role, and replicas of tenants with one
    or two move away. The primaries return afterwards.
    """
    safety_check_minutes: float = span(60.0)
    """Maximum time for which a node waits until all its tenants keep a quorum without it, before a roll-back."""
    health_check_minutes: float = span(5.0)
    """Time between the end of a domain and the health check that allows the next one."""
    failure_probability: float = number(0.0, high=1.0)
    """Probability that a domain is unhealthy after its upgrade; the upgrade is then rolled back domain by domain, the
    last one first.
    """

    @property
    def is_any(self) -> bool:
        """Whether there is any upgrade."""
        return bool(self.starts_hours)
