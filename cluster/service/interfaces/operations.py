"""Operations: what a request may ask for. One table of them is served, and described by the OpenAPI document."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any
from urllib.parse import quote

import attrs
import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from cluster.service import events
from cluster.service.interfaces.access import Actor, Right, check_right
from cluster.service.interfaces.problems import HttpProblem, RefusedError, problem_of
from cluster.service.service import LiveCluster, PlacementService, Receipt
from plb.errors import ConflictError

JSON = "application/json"
PACKED = ("application/msgpack", "application/x-msgpack", "application/vnd.msgpack")
"""Types of a body in MessagePack."""
EVENTS = "text/event-stream"
KEY = "idempotency-key"
"""Header with the id of an event."""
MOST_EVENTS = 10_000
"""Most events of a batch, or of a line."""
NOBODY = Actor("", Right.READ)
"""Who asks for what needs no right."""
DECIDES = (events.MakeCluster, events.RemoveCluster, events.Configure, events.ApplyPlan, events.DiscardPlan)
"""Events that need the right to apply."""


class NoQuery(msgspec.Struct, forbid_unknown_fields=True):
    """A request without parameters."""


class Answered(msgspec.Struct, omit_defaults=True):
    """The answer to an event that is in the log."""

    sequence: int
    """Sequence number of the event; if it is `repeated`, of the earlier event with its id."""
    generation: int
    """Generation of the cluster when the request is answered; plans of an earlier one are stale. 0: it is removed."""
    plan: str | None = None
    """Id of the plan that it asked for."""
    repeated: bool = False
    """Whether an earlier event has its id, so that it was not applied again."""
    problem: HttpProblem | None = None
    """Why it changed nothing; only in the answer to a batch."""


@attrs.define
class Call:
    """A request, read and allowed."""

    request: Request
    path: Mapping[str, str]
    """The parts of the path by name."""
    service: PlacementService
    actor: Actor
    """Who asks."""
    query: Any
    """The parameters, of the type of the operation."""
    body: Any
    """The body, of the type of the operation; None without one."""

    @property
    def live(self) -> LiveCluster:
        """The cluster of the path; an unknown one raises `UnknownNameError`."""
        return self.service.cluster(self.path["cluster"])

    async def submit(self, event: events.LoggedEvent) -> Answered:
        """Log an event and apply it, with the id in the header; raise the error of one that was refused."""
        event.id = self._key(event)
        check_right(self.actor, right_of(event))
        receipt = await self.service.submit(self.path["cluster"], event, self.actor.name)
        if receipt.refusal is not None:
            raise receipt.refusal
        return self.answered(event, receipt)

    def answered(self, event: events.LoggedEvent, receipt: Receipt) -> Answered:
        """Return the answer to an event."""
        refusal, live = receipt.refusal, self.service.clusters.get(self.path["cluster"])
        return Answered(
            receipt.sequence,
            0 if live is None else live.reader.state.generation,
            f"p{receipt.sequence}" if event.kind == "plan" and refusal is None else None,
            receipt.repeated,
            None if refusal is None else problem_of(refusal),
        )

    def _key(self, event: events.LoggedEvent) -> str | None:
        """Return the id of an event, which the header may give."""
        key = self.request.headers.get(KEY)
        if key is None:
            return event.id
        if not 0 < len(key) <= events.LONGEST_ID:
            raise events.RequestError(KEY, f"Expected 1 to {events.LONGEST_ID} letters")
        if event.id not in (None, key):
            raise ConflictError(f"the header {KEY} and the field id differ")
        return key


@attrs.frozen
class Operation:
    """A method of a path."""

    method: str
    path: str
    """Path with the names of its parts in braces."""
    handler: Callable[[Call], Any]
    """An async function that returns the answer: a value, a response, or an iterator of values (`EVENTS`)."""
    right: Right | None = attrs.field(default=Right.READ, kw_only=True)
    """The right that it needs; None: none. Events may need a higher one (`right_of`)."""
    query: type[msgspec.Struct] = attrs.field(default=NoQuery, kw_only=True)
    """Type of its parameters."""
    body: Any = attrs.field(default=None, kw_only=True)
    """Type of its body, or of the event that path and parameters describe; None: it has none."""
    body_first: Any = attrs.field(default=None, kw_only=True)
    """Type with fewer parts that the body must have before it is read; None: none."""
    from_path: tuple[str, ...] = attrs.field(default=(), kw_only=True)
    """Fields of the body that the path gives."""
    whole: str | None = attrs.field(default=None, kw_only=True)
    """Field of the type of the body that the whole body is; None: the body is of the type itself."""
    answer: Any = attrs.field(default=Answered, kw_only=True)
    """Type of the answer, or of the values of a stream; bytes: text."""
    status: int = attrs.field(default=200, kw_only=True)
    """Status of the answer."""
    streams: bool = attrs.field(default=False, kw_only=True)
    """Whether the answers are server-sent events."""

    @property
    def has_body(self) -> bool:
        """Whether a body is read."""
        return self.body is not None and self.method != "DELETE"

    def route(self) -> Route:
        """Return the route that serves it."""
        path = self.path.replace("{name}", "{name:path}")
        return Route(path, self._serve, methods=[self.method])

    async def _serve(self, request: Request) -> Response:
        """Read a request, and answer it."""
        state, actor = request.app.state, NOBODY
        if self.right is not None:
            actor = state.access.admit(request.headers.get("authorization"), self.right)
        query = _query(request, self.query)
        body = None if self.body is None else await self._body(request, query)
        answer = await self.handler(Call(request, request.path_params, state.service, actor, query, body))
        if isinstance(answer, Response):
            return answer
        if self.streams and request.method == "HEAD":
            return Response(media_type=EVENTS)
        if self.streams:
            return StreamingResponse(_stream(answer), media_type=EVENTS)
        plan = answer.plan if isinstance(answer, Answered) else None
        headers = None if plan is None else {"Location": quote(f"{request.url.path}/{plan}")}
        return Response(msgspec.json.encode(answer), self.status, headers, JSON)

    async def _body(self, request: Request, query: msgspec.Struct) -> Any:
        """Return the body as its type, with what the path and the parameters say."""
        media = request.headers.get("content-type", JSON).partition(";")[0].strip().lower()
        if self.has_body and media not in (JSON, *PACKED):
            raise RefusedError(415, f"the body must be of the type {JSON} or {PACKED[0]}")
        data, packed = await request.body() if self.has_body else b"", media in PACKED
        if self.has_body and not self.from_path and self.whole is None:
            return events.decoded(data, self.body, packed=packed, first=self.body_first)
        fields = events.decoded(data, dict[str, Any], packed=packed) if data or self.whole else {}
        for name in self.from_path:
            value = request.path_params[name]
            if fields.setdefault(name, value) != value:
                raise ConflictError(f"the path has the {name} {value}, and the body {fields[name]}")
        fields = fields if self.whole is None else {self.whole: fields}
        return events.decoded({**fields, **msgspec.structs.asdict(query)}, self.body)


def right_of(event: events.LoggedEvent) -> Right:
    """Return the right that an event needs."""
    return Right.APPLY if isinstance(event, DECIDES) else Right.REPORT


def _query(request: Request, kind: type[msgspec.Struct]) -> Any:
    """Return the parameters of a request as their type."""
    try:
        return msgspec.convert(dict(request.query_params), kind, strict=False)
    except msgspec.ValidationError as error:
        raise events.request_error(error, "parameters") from None


async def _stream(values: AsyncIterator[Any]) -> AsyncIterator[bytes]:
    """Return values as server-sent events; None keeps the connection open."""
    async for value in values:
        yield b": still here\n\n" if value is None else b"data: " + msgspec.json.encode(value) + b"\n\n"
