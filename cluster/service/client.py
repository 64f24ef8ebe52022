"""Clients of a service in Python: `Client`, and `AsyncClient` with the same calls to be awaited.

with Client("http://127.0.0.1:8765", "main") as client:
    client.put(Node("n0", capacities={"cpu": 16}))
    plan = client.plan(now=60.0)
    client.apply(plan["id"])
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, TypeAlias
from urllib.parse import quote

import httpx

from plb import Application, Node, Partition, PlbConfig, Service
from plb.errors import PlbError
from plb.model.documents import plain

SHORTEST_PAUSE, LONGEST_PAUSE, GROWTH = 0.05, 1.0, 1.25
"""Pauses between two questions whether a plan is made, in seconds, and by how much each is longer than the last one."""
KINDS = {Node: "nodes", Service: "services", Partition: "partitions", Application: "applications"}
"""Paths of what a client describes."""
Described: TypeAlias = Node | Service | Partition | Application


class ServiceError(PlbError):
    """A service refused a request.

    Parameters
    ----------
    status
        Status of HTTP.
    problem
        The document that says why, with ``detail`` and where known ``item``, ``field`` and ``allowed``.
    """

    def __init__(self, status: int, problem: dict[str, Any]) -> None:
        super().__init__(status, problem)
        self.status, self.problem = status, problem
        self._message = str(problem.get("detail", problem))


class Calls:
    """What a service can be asked. Each method returns the answer as a document, or raises `ServiceError`.

    A `key` names an event; a service that has applied an event with this key answers as before and does nothing, so
    that a call without an answer can be repeated.

    Parameters
    ----------
    address
        Address of the service, such as ``"http://127.0.0.1:8765"``.
    cluster
        Name of the cluster.
    token
        Token, if the service has tokens.
    http
        Options of `httpx.Client` or `httpx.AsyncClient`, such as ``timeout`` or ``verify``.
    """

    _connections: ClassVar[Any]
    """Class of the connections."""

    def __init__(self, address: str, cluster: str, *, token: str | None = None, **http: Any) -> None:
        self._base = f"{address.rstrip('/')}/v1/clusters/{quote(cluster, safe='')}"
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._http = self._connections(headers=headers, **http)

    def _send(self, request: httpx.Request) -> Any:
        """Return the answer to a request."""
        raise NotImplementedError

    def _ask(
        self, method: str, path: str, body: Any = None, key: str | None = None, query: Mapping[str, Any] | None = None
    ) -> Any:
        """Return the answer to a request for a path below the cluster's path; parameters that are None are omitted."""
        headers = {} if key is None else {"Idempotency-Key": key}
        sent = {name: value for name, value in (query or {}).items() if value is not None}
        request = self._http.build_request(method, self._base + path, json=body, params=sent, headers=headers)
        return self._send(request)

    def make(self, settings: PlbConfig, *, seed: int = 0) -> Any:
        """Make the cluster."""
        return self._ask("PUT", "", {"settings": plain(settings), "seed": seed})

    def remove_cluster(self, *, key: str | None = None) -> Any:
        """Remove the cluster: its searches end, and another cluster may have its name."""
        return self._ask("DELETE", "", key=key)

    def description(self) -> Any:
        """Return the settings of the cluster, how far it is, and its plans."""
        return self._ask("GET", "")

    def put(self, item: Described, *, now: float | None = None, key: str | None = None) -> Any:
        """Add or replace a node, a service, a partition or an application at the time `now`, in seconds."""
        path = f"/{KINDS[type(item)]}/{quote(item.name, safe='')}"
        return self._ask("PUT", path, plain(item), key, {"now": now})

    def remove(self, kind: str, name: str, *, now: float | None = None, key: str | None = None) -> Any:
        """Remove what has the name; `kind`: ``"nodes"``, ``"services"``, ``"partitions"`` or ``"applications"``."""
        return self._ask("DELETE", f"/{kind}/{quote(name, safe='')}", key=key, query={"now": now})

    def events(self, events: Sequence[dict[str, Any]]) -> Any:
        """Send events in their order; the answers, with a ``problem`` where one was refused, have the same order."""
        return self._ask("POST", "/events", [*events])

    def report_loads(
        self, partitions: Iterable[str], nodes: Iterable[str], loads: Iterable[Sequence[float]], **fields: Any
    ) -> Any:
        """Report the loads of m replicas, (m, R), each given by its partition and node, in the order of the metrics."""
        columns = {"partitions": [*partitions], "nodes": [*nodes], "loads": plain([*loads])}
        return self._ask("POST", "/loads", {**columns, **fields})

    def apply(self, plan: str, *, leaving: bool = False, key: str | None = None) -> Any:
        """Carry a plan out, exactly as it was shown; one that is stale is refused with the status 409."""
        return self._ask("POST", f"/plans/{plan}/apply", {"leaving": leaving}, key)

    def discard(self, plan: str) -> Any:
        """Give a plan up, also while it is searched for."""
        return self._ask("DELETE", f"/plans/{plan}")

    def report_outcomes(self, plan: str, failed: Sequence[int], *, key: str | None = None) -> Any:
        """Take the moves of a plan back that failed, given by their positions."""
        return self._ask("POST", f"/plans/{plan}/outcomes", {"failed": [*failed]}, key)

    def get(self, path: str, **query: Any) -> Any:
        """Ask for what changes nothing: ``"node_loads"``, ``"violations"``, ``"partitions/orders"``, or ``"score"``."""
        return self._ask("GET", f"/{path.lstrip('/')}", query=query)


class Client(Calls):
    """A client that waits for each answer."""

    _connections = httpx.Client

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def _send(self, request: httpx.Request) -> Any:
        return _answer(self._http.send(request))

    def plan(self, **request: Any) -> Any:
        """Ask for a plan, and return it when it is made; fields such as ``call``, ``now``, ``proposals``, ``id``."""
        path = f"/plans/{self._ask('POST', '/plans', request)['plan']}"
        pauses = _pauses()
        while (record := self._ask("GET", path))["status"] == "searching":
            time.sleep(next(pauses))
        return record


class AsyncClient(Calls):
    """A client whose calls are awaited: ``await client.plan(now=60.0)``."""

    _connections = httpx.AsyncClient

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def _send(self, request: httpx.Request) -> Any:
        return _answer(await self._http.send(request))

    async def plan(self, **request: Any) -> Any:
        """Ask for a plan, and return it when it is made; see `Client.plan`."""
        path = f"/plans/{(await self._ask('POST', '/plans', request))['plan']}"
        pauses = _pauses()
        while (record := await self._ask("GET", path))["status"] == "searching":
            await asyncio.sleep(next(pauses))
        return record


def _pauses() -> Iterator[float]:
    """Yield the pauses between questions whether a plan is made, in seconds."""
    pause = SHORTEST_PAUSE
    while True:
        yield pause
        pause = min(LONGEST_PAUSE, GROWTH * pause)


def _answer(response: httpx.Response) -> Any:
    """Return the document of an answer; raise `ServiceError` if the service refused the request."""
    if response.is_success:
        return response.json()
    try:
        problem = response.json()
    except ValueError:
        problem = {"detail": f"{response.status_code} {response.reason_phrase}"}
    raise ServiceError(response.status_code, problem)
