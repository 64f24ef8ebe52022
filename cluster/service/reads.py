"""What REST, the line protocol and the console read of a cluster; answers are kept until its next entry."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from cluster.service.documents import of_violation
from cluster.service.events import Engine
from cluster.service.service import LiveCluster
from plb.model.rules import Violation


def node_loads(live: LiveCluster) -> dict[str, dict[str, float]]:
    """Return the load of each node by metric, in user units."""
    return live.kept("loads", Engine.node_loads)


def violations(live: LiveCluster, *, soft: bool = False) -> tuple[Violation, ...]:
    """Return the violations; `soft`: also broken soft and preferred constraints."""
    return live.kept(("violations", soft), partial(Engine.violations, soft=soft))


def violation_probabilities(live: LiveCluster) -> dict[str, float]:
    """Return the probability of a violation of each node."""
    return live.kept("probabilities", Engine.violation_probabilities)


def node_loads_as_json(live: LiveCluster) -> msgspec.Raw:
    """Return `node_loads` in JSON."""
    return _as_json(live, "loads", partial(node_loads, live))


def violations_as_json(live: LiveCluster, *, soft: bool = False) -> msgspec.Raw:
    """Return the documents of `violations` in JSON."""
    return _as_json(live, ("violations", soft), lambda: [*map(of_violation, violations(live, soft=soft))])


def score_as_json(live: LiveCluster, partition: str, now: float | None) -> msgspec.Raw:
    """Return in JSON what each node is worth for the next replica that a partition misses; errors as of the engine."""
    return _as_json(live, ("score", partition, now), lambda: live.reader.engine.score(partition, now=now).as_json())


def _as_json(live: LiveCluster, key: Any, value: Callable[[], Any]) -> msgspec.Raw:
    """Return a value in JSON, which is kept under a key."""
    return live.kept(("JSON", key), lambda _engine: msgspec.Raw(msgspec.json.encode(value())))
