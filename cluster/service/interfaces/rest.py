"""The interface over HTTP: the table of operations, and the application that serves them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from functools import cache, partial
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.responses import Response

from cluster.service import events
from cluster.service.interfaces import reads
from cluster.service.interfaces.access import Access, Right, check_right
from cluster.service.interfaces.console import OPERATIONS as CONSOLE
from cluster.service.interfaces.guard import MOST_BYTES, Guard
from cluster.service.interfaces.metrics import Metrics
from cluster.service.interfaces.openapi import document
from cluster.service.interfaces.operations import KEY, MOST_EVENTS, Answered, Call, Operation, right_of
from cluster.service.interfaces.problems import on_error
from cluster.service.kubernetes.extender import OPERATIONS as EXTENDER
from cluster.service.replica import OPEN, PlanRecord, Status
from cluster.service.service import LiveCluster, PlacementService
from plb.errors import ConflictError, PlbError
from plb.model.documents import Document, plain
from plb.validation import check_known

BATCH = Annotated[list[events.HostEvent], Meta(max_length=MOST_EVENTS)]
UNREAD_BATCH = Annotated[list[msgspec.Raw], Meta(max_length=MOST_EVENTS)]
SECONDS_OF_SILENCE = 15.0
"""Longest time without a message of a stream."""
CLUSTER = "/v1/clusters/{cluster}"


class AtTime(msgspec.Struct, forbid_unknown_fields=True):
    """The parameter of a change."""

    now: events.Time | None = None
    """When it happens; missing: at the latest time."""


class Changed(msgspec.Struct):
    """How far a cluster is."""

    sequence: int
    """Sequence number of its last event."""
    generation: int
    """Number of its structural events."""
    now: float
    """Its latest time, in seconds of the host's clock."""


class PlanStatus(msgspec.Struct, omit_defaults=True):
    """What has become of a plan."""

    id: str
    status: Status
    generation: int
    """Generation of the cluster that it is for."""
    stale: bool
    """Whether it cannot be applied any more, because the cluster has changed."""
    moves: int | None = None
    """Number of its moves, once it is made."""
    error: str | None = None
    """Why its search ended without a plan."""


class ClusterDocument(Changed):
    """A cluster."""

    name: str
    seed: int
    """Seed of the searches."""
    settings: Document
    """Its settings."""
    plans: list[PlanStatus]
    """The plans that are kept, the oldest first."""


class NodeDocument(msgspec.Struct):
    """A node, and what is on it."""

    node: Document
    """The node as it was described."""
    partitions: list[str]
    """Names of the partitions with a replica on it."""


# what changes a cluster


async def send(call: Call) -> Answered:
    """Log and apply the event that is the body, or that path and parameters describe."""
    return await call.submit(call.body)


async def put_cluster(call: Call) -> Answered:
    """Make a cluster; the settings of one that exists are replaced."""
    making: events.MakeCluster = call.body
    live = call.service.clusters.get(call.path["cluster"])
    if live is None:
        return await call.submit(making)
    if making.seed != live.reader.engine.seed:
        raise ConflictError(f"cluster {call.path['cluster']} has the seed {live.reader.engine.seed}; it cannot change")
    return await call.submit(events.Configure(settings=making.settings, now=making.now, id=making.id))


async def send_batch(call: Call) -> list[Answered]:
    """Log and apply events in their order; each has an answer, a refused event with the problem."""
    batch: list[events.LoggedEvent] = call.body
    if KEY in call.request.headers:
        raise events.RequestError(KEY, "Expected no key with a batch; each event may have an id")
    for event in batch:
        check_right(call.actor, right_of(event))
    receipts = await call.service.submit_all(call.path["cluster"], batch, call.actor.name)
    return [call.answered(event, receipt) for event, receipt in zip(batch, receipts, strict=True)]


# reads


async def read(call: Call) -> Any:
    """Return the answer to the question that the parameters are."""
    return await call.query.answer(call.live)


def changed(live: LiveCluster) -> Changed:
    """Return how far a cluster is."""
    return Changed(live.sequence, live.reader.state.generation, live.reader.state.now)


def status_of_plan(live: LiveCluster, plan: PlanRecord) -> PlanStatus:
    """Return what has become of a plan."""
    moves = (plan.document or {}).get("moves")
    stale = live.reader.is_stale(plan)
    return PlanStatus(plan.id, plan.status, plan.generation, stale, None if moves is None else len(moves), plan.error)


async def list_clusters(call: Call) -> list[str]:
    """Return the names of the clusters."""
    return sorted(call.service.clusters)


async def get_cluster(call: Call) -> ClusterDocument:
    """Return a cluster with its settings and plans."""
    live, engine = call.live, call.live.reader.engine
    plans = await list_plans(call)
    fields = msgspec.structs.asdict(changed(live))
    return ClusterDocument(**fields, name=live.name, seed=engine.seed, settings=plain(engine.config), plans=plans)


async def list_plans(call: Call) -> list[PlanStatus]:
    """Return the plans that are kept, the oldest first."""
    return [status_of_plan(call.live, plan) for plan in call.live.reader.state.plans.values()]


async def get_plan(call: Call) -> PlanRecord:
    """Return a plan with its document, once it is made."""
    return call.live.reader.plan(call.path["plan"])


async def list_nodes(call: Call) -> list[Document]:
    """Return the nodes as they were described, in the order in which they were made."""
    return [plain(node) for node in call.live.reader.engine.nodes]


async def get_node(call: Call) -> NodeDocument:
    """Return a node, and what is on it."""
    engine, name = call.live.reader.engine, call.path["name"]
    partitions = [*engine.partitions_on(name)]
    return NodeDocument(plain(next(node for node in engine.nodes if node.name == name)), partitions)


async def get_replicas(call: Call) -> list[Document]:
    """Return the replicas of a partition."""
    return [plain(replica) for replica in call.live.reader.engine.replicas(call.path["name"])]


async def get_application(call: Call) -> Document:
    """Return an application."""
    applications = {application.name: application for application in call.live.reader.engine.applications}
    check_known("application", call.path["name"], applications)
    document: Document = plain(applications[call.path["name"]])
    return document


async def cluster_events(call: Call) -> AsyncIterator[Changed | None]:
    """Return how far the cluster is, now and after each change; changes in quick succession are one."""
    live = call.live
    return following(live, partial(changed, live), lambda _: False)


async def plan_events(call: Call) -> AsyncIterator[PlanStatus | None]:
    """Return what has become of a plan, now and after each change, until it is applied, discarded or has failed."""
    live = call.live
    plan = live.reader.plan(call.path["plan"])
    return following(live, partial(status_of_plan, live, plan), lambda now: now.status not in OPEN)


async def following(
    live: LiveCluster, value: Callable[[], Any], is_last: Callable[[Any], bool]
) -> AsyncIterator[Any | None]:
    """Return a value now and whenever it has changed, to its last one, or the end of cluster or server; None: silence.

    A value is made when the client has taken the previous value, so that a slow client costs no memory.
    """
    sent = None
    while not (live.is_ending or live.is_removed):
        changed, current = live.changed, value()
        if current != sent:
            yield current
            sent = current
            if is_last(current):
                return
        try:
            async with asyncio.timeout(SECONDS_OF_SILENCE):
                await changed.wait()
        except TimeoutError:
            yield None


# the process


async def healthz(_call: Call) -> dict[str, str]:
    """Return that the process answers."""
    return {"status": "ok"}


async def readyz(call: Call) -> dict[str, str]:
    """Return that events are accepted; 503 while the log cannot be written."""
    if call.service.failure is not None:
        raise HTTPException(503, call.service.failure)
    return {"status": "ready"}


async def metrics(call: Call) -> Response:
    """Return figures of the service for Prometheus."""
    return Response(call.request.app.state.metrics.text(), media_type="text/plain; version=0.0.4")


async def openapi(_call: Call) -> msgspec.Raw:
    """Return this description of the interface."""
    return _openapi()


@cache
def _openapi() -> msgspec.Raw:
    """Return the description of the interface as JSON."""
    return msgspec.Raw(msgspec.json.encode(document(OPERATIONS)))


def _items() -> Iterable[Operation]:
    """Return the operations that put and remove items."""
    for kind, (puts, removes) in events.ITEMS.items():
        path, right = f"{CLUSTER}/{kind}s/{{name}}", Right.REPORT
        yield Operation("PUT", path, send, right=right, query=AtTime, body=puts, from_path=("name",), whole=kind)
        yield Operation("DELETE", path, send, right=right, query=AtTime, body=removes, from_path=("name",))


PLAN = f"{CLUSTER}/plans/{{plan}}"
OPERATIONS = (
    Operation("GET", "/healthz", healthz, right=None, answer=dict[str, str]),
    Operation("GET", "/readyz", readyz, right=None, answer=dict[str, str]),
    Operation("GET", "/metrics", metrics, answer=bytes),
    Operation("GET", "/openapi.json", openapi, right=None, answer=Document),
    Operation("GET", "/v1/clusters", list_clusters, answer=list[str]),
    Operation("GET", CLUSTER, get_cluster, answer=ClusterDocument),
    Operation("PUT", CLUSTER, put_cluster, right=Right.APPLY, body=events.MakeCluster),
    Operation("DELETE", CLUSTER, send, right=Right.APPLY, body=events.RemoveCluster),
    *_items(),
    Operation("GET", f"{CLUSTER}/nodes", list_nodes, answer=list[Document]),
    Operation("GET", f"{CLUSTER}/nodes/{{name}}", get_node, answer=NodeDocument),
    Operation("GET", f"{CLUSTER}/partitions/{{name}}", get_replicas, answer=list[Document]),
    Operation("GET", f"{CLUSTER}/applications/{{name}}", get_application, answer=Document),
    Operation("POST", f"{CLUSTER}/loads", send, right=Right.REPORT, body=events.ReportLoads),
    Operation(
        "POST",
        f"{CLUSTER}/events",
        send_batch,
        right=Right.REPORT,
        body=BATCH,
        body_first=UNREAD_BATCH,
        answer=list[Answered],
    ),
    Operation("GET", f"{CLUSTER}/events", cluster_events, answer=Changed, streams=True),
    Operation("POST", f"{CLUSTER}/plans", send, right=Right.REPORT, body=events.RequestPlan, status=202),
    Operation("GET", f"{CLUSTER}/plans", list_plans, answer=list[PlanStatus]),
    Operation("GET", PLAN, get_plan, answer=PlanRecord),
    Operation("DELETE", PLAN, send, right=Right.APPLY, body=events.DiscardPlan, from_path=("plan",)),
    Operation("GET", f"{PLAN}/events", plan_events, answer=PlanStatus, streams=True),
    Operation("POST", f"{PLAN}/apply", send, right=Right.APPLY, body=events.ApplyPlan, from_path=("plan",)),
    Operation("POST", f"{PLAN}/outcomes", send, right=Right.REPORT, body=events.ReportOutcomes, from_path=("plan",)),
    Operation("GET", f"{CLUSTER}/violations", read, query=reads.ReadViolations, answer=list[Document]),
    Operation("GET", f"{CLUSTER}/node_loads", read, query=reads.ReadNodeLoads, answer=dict[str, dict[str, float]]),
    Operation("GET", f"{CLUSTER}/score", read, query=reads.ReadScore, answer=Document),
    Operation("GET", f"{CLUSTER}/alternatives", read, query=reads.ReadAlternatives, answer=list[Document]),
    Operation("GET", f"{CLUSTER}/explain", read, query=reads.ReadExplanation, answer=list[Document]),
    *EXTENDER,
)
"""All operations."""


def application(service: PlacementService, access: Access | None = None, *, most_bytes: int = MOST_BYTES) -> Starlette:
    """Return the application of a service that has started.

    `access`: the tokens, or None: every request has all rights; `most_bytes`: most bytes of a body.
    """
    access = access or Access()
    figures = Metrics(service)
    guard = Middleware(Guard, metrics=figures, checks_host=access.checks_host, most_bytes=most_bytes)
    handlers: dict[Any, Any] = dict.fromkeys((PlbError, HTTPException, Exception), on_error)
    routes = [operation.route() for operation in (*OPERATIONS, *CONSOLE)]
    app = Starlette(routes=routes, middleware=[guard], exception_handlers=handlers)
    app.state.service, app.state.access, app.state.metrics = service, access, figures
    return app


def end_streams(app: Starlette) -> None:
    """End all streams of an application, so that its server can end."""
    for live in app.state.service.clusters.values():
        live.is_ending = True
        live.notify()
