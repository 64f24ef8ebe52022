"""A small cluster as its user describes it: strategies generate it, and engines are created from it."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from enum import Enum
from fractions import Fraction
from typing import Any

import attrs

from plb.engine import PlacementAndLoadBalancing
from plb.extensions.configuration import Configuration
from plb.model import Application, Metric, Node, Partition, Role, Service
from plb.risk.demand_history import DemandHistory
from plb.settings.config import PlbConfig
from plb.state.cluster_state import describe


@attrs.frozen(repr=False)
class Cluster:
    """A cluster as its user describes it; any number of engines can be created from it."""

    metrics: tuple[Metric, ...]
    """The metrics of the engine."""
    config: Mapping[str, Any]
    """Fields of `PlbConfig` apart from the metrics."""
    nodes: tuple[Node, ...]
    """The nodes, in the order in which they are added."""
    services: tuple[Service, ...]
    """The services of the partitions."""
    partitions: tuple[Partition, ...]
    """The partitions with their placed replicas."""
    loads: Mapping[tuple[str, str], Mapping[str, float]]
    """Reported load of a replica by metric, in user units; by names of partition and node."""
    history: Mapping[str, Any] | None
    """Columns of a `DemandHistory`, or None."""
    seed: int
    """Seed of the engine."""
    applications: tuple[Application, ...] = ()
    """The applications of the services."""

    def __repr__(self) -> str:
        return brief(self)

    def _repr_pretty_(self, printer: Any, _cycle: bool) -> None:
        """Show the cluster in a counterexample of Hypothesis."""
        printer.text(brief(self))

    def engine(self, *, extensions: Mapping[str, Any] | None = None, **changes: Any) -> PlacementAndLoadBalancing:
        """Return an engine with this cluster.

        `extensions` are further arguments of the engine, such as ``extension_terms``; `changes` replace fields of its
        settings.
        """
        config = PlbConfig(metrics=self.metrics, **{**self.config, **changes})
        names = [metric.name for metric in self.metrics]
        history = None if self.history is None else DemandHistory.from_columns(names, **self.history)
        engine = PlacementAndLoadBalancing(config, seed=self.seed, history=history, **(extensions or {}))
        for node in self.nodes:
            engine.update_node(node)
        for application in self.applications:
            engine.update_application(application)
        for service in self.services:
            engine.update_service(service)
        for partition in self.partitions:
            engine.update_partition(partition)
        for (partition_name, node_name), load in self.loads.items():
            engine.report_load(partition_name, node_name, load)
        return engine

    def partition_of(self, name: str) -> Partition:
        """Return a partition by name."""
        return next(p for p in self.partitions if p.name == name)

    def service_of(self, partition: str) -> Service:
        """Return the service of a partition by name."""
        name = next(p.service for p in self.partitions if p.name == partition)
        return next(service for service in self.services if service.name == name)

    def load_of(self, partition: str, role: Role, node: str | None) -> dict[str, Fraction]:
        """Return the exact load of a replica by metric: reported for `node`, or with None its default."""
        default = self.service_of(partition).default_load.get(role, {})
        load = default if node is None else self.loads[partition, node]
        return {metric.name: Fraction(load.get(metric.name, 0)) for metric in self.metrics}


def configuration_of(engine: PlacementAndLoadBalancing, now: float = 0.0) -> Configuration:
    """Return a copy of the present configuration of an engine, at time `now`."""
    planner = engine._planner
    problem = planner.problem(now)
    description = describe(engine._state, now, planner.demand_forecast.history)
    return Configuration(deepcopy(problem), planner.start(problem).copy(), description)


def brief(value: Any) -> str:
    """Return a value as code for a counterexample.

    Attrs objects without the fields that are empty or have their default.
    """
    if isinstance(value, Enum):
        return f"{type(value).__name__}.{value.name}"
    if attrs.has(type(value)):
        fields = [field for field in attrs.fields(type(value)) if not _is_default(field, value)]
        shown = (f"{field.name}={brief(getattr(value, field.name))}" for field in fields)
        return f"{type(value).__name__}({', '.join(shown)})"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{brief(key)}: {brief(entry)}" for key, entry in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(brief, value)) + "]"
    if isinstance(value, tuple):
        return "(" + ", ".join(map(brief, value)) + ("," if len(value) == 1 else "") + ")"
    return repr(value)


def _is_default(field: attrs.Attribute[Any], item: Any) -> bool:
    """Return whether a field of an attrs object has its default or is empty."""
    value, default = getattr(item, field.name), field.default
    if isinstance(default, attrs.Factory):  # type: ignore[arg-type]  # declared as a function
        return not value
    return value == default or (default is attrs.NOTHING and value in (None, (), {}, 0))
