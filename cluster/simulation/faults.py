"""When each node is down. Faults are sampled before any policy runs, so that all policies face the same faults."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import attrs
import numpy as np

from cluster.scenario.faults_section import Faults, Outage
from cluster.scenario.scenario import Scenario
from cluster.simulation.random_streams import stream
from plb import Node, UnknownNameError

Interval = tuple[int, int]
"""Seconds since the start: the first second of a fault, and the first after it."""


@attrs.frozen(order=True)
class NodeEvent:
    """A node goes down or comes back.

    Parameters
    ----------
    time
        Seconds since the start.
    goes_down
        Whether it goes down; nodes come back before others go down at the same time.
    node
        Its name.
    """

    time: int
    goes_down: bool
    node: str


def make_faults(scenario: Scenario, nodes: Sequence[Node], repeat: int = 0) -> list[NodeEvent]:
    """Return when nodes go down and come back in one repeat, ordered by time.

    A node is down while any of its faults lasts.

    Raises
    ------
    UnknownNameError
        If a fault names a node or a fault domain that the cluster does not have.
    """
    faults, end = scenario.faults, round(scenario.run.days * 86400)
    _check_names(faults, nodes)
    events = []
    for index, node in enumerate(nodes):
        intervals = [*_listed(faults, node, end)]
        if faults.days_between_crashes is not None:
            intervals += _random_crashes(faults, end, stream(scenario.run.seed, "faults", repeat, index))
        for begin, after in _merged(intervals):
            if begin <= end:
                events += [NodeEvent(begin, True, node.name), NodeEvent(after, False, node.name)]
    return sorted(events)


def _check_names(faults: Faults, nodes: Sequence[Node]) -> None:
    names = [node.name for node in nodes]
    paths = {node.fault_domain_path[:depth] for node in nodes for depth in range(1, len(node.fault_domain_path) + 1)}
    for place in ("crashes", "flapping"):
        for fault in getattr(faults, place):
            if fault.node not in names:
                raise UnknownNameError("node", fault.node, names, f"faults.{place}")
    for outage in faults.outages:
        if _path_of(outage) not in paths:
            known = sorted("/".join(path) for path in paths)
            raise UnknownNameError("fault domain", outage.fault_domain, known, "faults.outages")


def _path_of(outage: Outage) -> tuple[str, ...]:
    """Return the path of the domain that fails, from the top level down."""
    return tuple(part for part in outage.fault_domain.removeprefix("fd:").split("/") if part)


def _listed(faults: Faults, node: Node, end: int) -> Iterator[Interval]:
    """Yield the faults of a node that the scenario lists; flapping stops at the end of the run."""
    for crash in faults.crashes:
        if crash.node == node.name:
            yield _interval(crash.at_hours, crash.hours)
    for outage in faults.outages:
        domain = _path_of(outage)
        if node.fault_domain_path[: len(domain)] == domain:
            yield _interval(outage.at_hours, outage.hours)
    for flapping in faults.flapping:
        if flapping.node == node.name:
            begin, cycle = flapping.from_hours, (flapping.up_minutes + flapping.down_minutes) / 60.0
            for number in range(math.ceil((min(flapping.until_hours, end / 3600.0 + cycle) - begin) / cycle)):
                yield _interval(begin + number * cycle, flapping.down_minutes / 60.0)


def _random_crashes(faults: Faults, end: int, rng: np.random.Generator) -> Iterator[Interval]:
    """Yield sampled crashes of one node."""
    assert faults.days_between_crashes is not None
    now = 0.0
    while True:
        now += rng.exponential(faults.days_between_crashes * 86400.0)
        if now > end:
            return
        repaired = now + _repair_seconds(faults, rng)
        yield math.floor(now), max(math.floor(now) + 1, math.floor(repaired))
        now = repaired


def _repair_seconds(faults: Faults, rng: np.random.Generator) -> float:
    mean = faults.repair_hours * 3600.0
    if faults.repair_distribution == "constant":
        return mean
    if faults.repair_distribution == "exponential":
        return float(rng.exponential(mean))
    sigma = faults.repair_sigma
    return float(rng.lognormal(math.log(mean) - sigma**2 / 2, sigma))


def _merged(intervals: Sequence[Interval]) -> Iterator[Interval]:
    """Yield the unions of intervals that overlap or touch."""
    begin, after = -1, -1
    for first, last in sorted(intervals):
        if first > after:
            if after > begin:
                yield begin, after
            begin = first
        after = max(after, last) if first <= after else last
    if after > begin:
        yield begin, after


def _interval(begin: float, hours: float) -> Interval:
    """Return a fault of some hours in whole seconds, at least one."""
    first = round(begin * 3600.0)
    return first, max(first + 1, round((begin + hours) * 3600.0))
