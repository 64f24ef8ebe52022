"""Replay: the events of a log are applied again, and their outcomes are compared with the log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from cluster.service.events import Engine, MakeCluster, PlanMade, RemoveCluster
from cluster.service.log import Log, LogError
from cluster.service.replica import ClusterReplica, PlanRecord, plan_for
from cluster.service.searches import SAVED_EVERY, work_to_repeat
from plb.errors import PlbError
from plb.model.documents import Document
from plb.model.plan import of_plan

SECONDS_UNTIL_WRITTEN = 1.0
"""Time after which the log has the refusal of an event."""
ENERGY_DIGITS = 9
"""Significant digits of energies that are compared."""


@attrs.frozen
class Difference:
    """An entry with another outcome in the replay than in the log."""

    cluster: str
    sequence: int
    kind: str
    """Kind of the event."""
    logged: str
    """Outcome in the log, in words."""
    replayed: str
    """Outcome in the replay, in words."""

    def __str__(self) -> str:
        return f"{self.cluster} {self.sequence} {self.kind}: {self.logged}; now {self.replayed}"


@attrs.define
class LogReplay:
    """The events of a cluster, applied again from the first."""

    cluster: str
    entries: int = 0
    """Number of applied entries."""
    plans: int = 0
    """Number of plans that were made again."""
    differences: list[Difference] = attrs.field(factory=list)
    is_limited: bool = False
    """Whether a time limit ended a plan, so that later plans were not compared."""


def replay(log: Log, cluster: str) -> LogReplay:
    """Return the replay of a cluster of a log.

    Plans that were stopped, or ended by a time limit, are not made again. Plans after one with a time limit are not
    compared, as it is not known how far the search had come. Refusals of the last second may not be in the log yet.
    Raise `LogError` if the log cannot be read, or does not begin with the cluster.
    """
    result = LogReplay(cluster)
    events = (entry.event for entry in log.entries(cluster))
    logged_plans = {event.plan: event.document for event in events if isinstance(event, PlanMade)}

    def search(engine: Engine, record: PlanRecord) -> None:
        """Give a plan its logged document, and make it again and compare both if no time limit came before."""
        document = logged_plans.get(record.id)
        if document is None:
            return
        record.document = document
        result.is_limited = result.is_limited or not document.get("reproducible", True)
        if not result.is_limited:
            record.document = _made_again(engine, record)
            result.plans += 1
            result.differences += _compared(cluster, record, document)
        assert replica is not None
        replica.state.weight += work_to_repeat(document)

    last = max((entry.time for entry in log.entries(cluster)), default=0.0)
    replica: ClusterReplica | None = None
    for entry in log.entries(cluster):
        result.entries += 1
        if isinstance(entry.event, RemoveCluster):
            replica = None
            continue
        if replica is None:
            if not isinstance(entry.event, MakeCluster):
                raise LogError(f"{log.path}: the log of cluster {cluster} does not begin with its settings")
            replica = ClusterReplica(entry.event, search)
        error = replica.refusal(entry)
        refusal = None if error is None else str(error)
        is_late = entry.refusal is None and last - entry.time < SECONDS_UNTIL_WRITTEN
        if refusal != entry.refusal and not is_late:
            texts = (f"refused: {text}" if text else "applied" for text in (entry.refusal, refusal))
            result.differences.append(Difference(cluster, entry.sequence, entry.event.kind, *texts))
        if replica.state.weight >= SAVED_EVERY:
            replica.saved(entry.sequence)
    return result


def _made_again(engine: Engine, record: PlanRecord) -> Document:
    """Return the document of a plan, or of the error that ends its search."""
    try:
        return of_plan(plan_for(engine, record))
    except PlbError as error:
        return {"error": str(error)}


def _compared(cluster: str, record: PlanRecord, logged: Document) -> Iterator[Difference]:
    """Yield the difference between a plan and the plan of the log, if there is one."""
    assert record.document is not None
    texts = [_in_words(document) for document in (logged, record.document)]
    if _decision(logged) != _decision(record.document):
        yield Difference(cluster, record.sequence, "plan", *texts)


def _decision(document: Mapping[str, Any]) -> Any:
    """Return what a plan decides: its moves without the words of their reasons, or its error."""
    if "error" in document:
        return document["error"]
    fields = ("kind", "partition", "role", "source", "target")
    return [tuple(move[field] for field in fields) for move in document["moves"]]


def _in_words(document: Mapping[str, Any]) -> str:
    """Return a plan in a few words."""
    if "error" in document:
        return f"no plan: {document['error']}"
    energy = document["energy_after"]["total"]
    return f"{len(document['moves'])} moves to an energy of {energy:.{ENERGY_DIGITS}g}"
