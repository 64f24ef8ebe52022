"""What REST, the line protocol and the console ask of a cluster; most answers are kept until its next entry."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Annotated, Any, TypeAlias

import attrs
import msgspec
from msgspec import Meta, Struct
from starlette.concurrency import run_in_threadpool

from cluster.service.events import Engine
from cluster.service.service import LiveCluster
from plb import Alternatives
from plb.errors import InvalidValueError
from plb.model.documents import Document, plain
from plb.model.rules import Violation

MOST_PLACES = 100_000
"""Replicas times nodes of a question: some seconds."""
MOST_PARTITIONS = 10_000
"""Partitions of a question."""


def node_loads(live: LiveCluster) -> dict[str, dict[str, float]]:
    """Return the load of each node by metric, in user units."""
    return live.kept("loads", Engine.node_loads)


def violations(live: LiveCluster, *, soft: bool = False) -> tuple[Violation, ...]:
    """Return the violations; `soft`: also broken soft and preferred constraints."""
    return live.kept(("violations", soft), partial(Engine.violations, soft=soft))


def violation_probabilities(live: LiveCluster) -> dict[str, float]:
    """Return the probability of a violation of each node."""
    return live.kept("probabilities", Engine.violation_probabilities)


class Read(Struct, kw_only=True, forbid_unknown_fields=True, tag_field="read"):
    """A question about the cluster as it is."""

    def value(self, live: LiveCluster) -> Any:
        """Return the answer as values of JSON; an unknown name raises `UnknownNameError`."""
        raise NotImplementedError

    async def answer(self, live: LiveCluster) -> Any:
        """Return the answer in JSON, which is kept; errors as in `value`."""
        return live.kept(msgspec.json.encode(self), lambda _: msgspec.Raw(msgspec.json.encode(self.value(live))))


class ReadReplicas(Read, tag="replicas"):
    """The replicas of partitions, by partition."""

    partitions: Annotated[list[str], Meta(max_length=MOST_PARTITIONS)]

    async def answer(self, live: LiveCluster) -> Document:
        """Return lists of replicas, which are not kept."""
        return {name: plain(live.reader.engine.replicas(name)) for name in self.partitions}


class ReadNodeLoads(Read, tag="node_loads"):
    """The load of each node by metric, in user units."""

    def value(self, live: LiveCluster) -> Any:
        """Return the loads by node."""
        return node_loads(live)


class ReadViolations(Read, tag="violations"):
    """The violations of the cluster as it is."""

    soft: bool = False
    """Whether broken soft and preferred constraints are included."""

    def value(self, live: LiveCluster) -> Any:
        """Return the violations."""
        return [*map(Violation.to_dict, violations(live, soft=self.soft))]


class ReadScore(Read, tag="score"):
    """What each node is worth for the next replica that a partition misses."""

    partition: str
    """Name of the partition."""
    now: float | None = None
    """Time in seconds of the host's clock; missing: the latest one."""

    def value(self, live: LiveCluster) -> Any:
        """Return the scores."""
        return live.reader.engine.score(self.partition, now=self.now).as_json()

    def alternatives(self, live: LiveCluster) -> Sequence[Alternatives]:
        """Return the alternatives of the replicas; `InvalidValueError` where all other requests would wait for them."""
        engine = live.reader.engine
        places = len(engine.replicas(self.partition)) * len(engine.nodes)
        if places > MOST_PLACES:
            allowed = f"at most {MOST_PLACES:,} replicas times nodes"
            raise InvalidValueError(f"partition {self.partition}", "alternatives", places, allowed)
        return engine.alternatives(self.partition, now=self.now)


class ReadAlternatives(ReadScore, tag="alternatives"):
    """For each replica of a partition, the nodes that could take it, best first, and the nodes that cannot."""

    async def answer(self, live: LiveCluster) -> Any:
        """Return the nodes by replica."""
        replicas = self.alternatives(live)
        return await run_in_threadpool(_alternatives_as_json, replicas)


def _alternatives_as_json(replicas: Iterable[Alternatives]) -> msgspec.Raw:
    """Return documents of alternatives; `plain` would not change the many nodes, which are encoded as they are."""
    documents = [
        {
            **plain(attrs.evolve(replica, places=(), closed=())),
            "places": [*replica.places],
            "closed": replica.closed,
        }
        for replica in replicas
    ]
    return msgspec.Raw(msgspec.json.encode(documents, enc_hook=plain))


class ReadExplanation(ReadScore, tag="explain"):
    """In words where each replica of a partition is, why not elsewhere, and what would have to change."""

    node: str | None = None
    """Name of the node; missing: the nearest of each set of rules that exclude them."""

    async def answer(self, live: LiveCluster) -> Any:
        """Return the words by replica."""
        return [*map(self._explained, self.alternatives(live))]

    def _explained(self, replica: Alternatives) -> Document:
        """Return where a replica is, and why it is not on the node, or the nearest nodes."""
        return {
            "role": plain(replica.role),
            "node": None if replica.standing is None else replica.standing.node,
            "text": str(replica),
            "rank": replica.rank,
            "nodes": [
                {"node": closed.node, "because": [*map(str, closed.obstacles)], "changes": [*closed.changes]}
                for closed in (replica.nearest if self.node is None else replica.closed)
                if self.node in (None, closed.node)
            ],
        }


AnyRead: TypeAlias = ReadReplicas | ReadNodeLoads | ReadViolations
"""The questions of the line protocol."""
