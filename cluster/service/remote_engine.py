"""An engine that a service runs, for simulations: it has the methods of `PlacementAndLoadBalancing` that runs call."""

from __future__ import annotations

import socket
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any, cast, get_args
from uuid import uuid4

import attrs
import msgspec

from cluster.errors import refusal
from cluster.runs.experiment import Experiment
from cluster.scenario.scenario import Scenario
from cluster.service import events
from cluster.service.interfaces.access import TOO_MANY
from cluster.service.interfaces.guard import host_and_port
from cluster.service.interfaces.lines import LONGEST, TCP, UNIX, Line
from cluster.service.interfaces.reads import MOST_PARTITIONS, AnyRead, ReadReplicas
from cluster.service.past_tenants import PastTenants
from plb import PlacedReplica, PlacementAndLoadBalancing, Plan, PlbConfig
from plb.array_types import Float, Int
from plb.engine_extensions import POLICIES, path_options
from plb.errors import ConflictError, InvalidValueError, PlbError
from plb.model.documents import Document, plain
from plb.model.plan import plan_of
from plb.model.role import Role
from plb.risk import DemandHistory

PAUSE_SECONDS = 0.05
"""Pause before a line that was one too many is sent again."""
METHODS: dict[str, Any] = {kind.method or str(kind.__struct_config__.tag): kind for kind in get_args(events.HostEvent)}
"""The events that methods of an engine stand for."""
MOST_WAITING = 1000
"""Work of the events that wait for the next line, in units of a usual event."""


class RemoteError(PlbError):
    """A service cannot be reached, or has refused what a simulation has sent."""


class RemoteEngine:
    """A separate cluster at a service, with the methods of an engine that runs call.

    Events wait until an answer is needed, and are then sent in one line; so an event that the service refuses raises
    `RemoteError` at a later call. `address`: ``tcp://HOST:PORT`` or ``unix:///PATH``, as `plb serve --lines` has it;
    `config`, `seed`, `history`: as in `PlacementAndLoadBalancing`.
    """

    def __init__(self, address: str, config: PlbConfig, *, seed: int = 0, history: DemandHistory | None = None) -> None:
        """Make a cluster of its own at the service at `address`; the other arguments are as for an engine."""
        self.config = config
        """The settings."""
        self._connection, self._address = connect(address), address
        self._answers = self._connection.makefile("rb")
        weakref.finalize(self, _close, self._connection, self._answers)
        self._cluster = f"run-{uuid4().hex}"
        self._waiting: list[events.HostEvent | events.MakeCluster] = []
        self._now = 0.0
        """Latest time that the service was told."""
        self._work = 0
        """Work of the events that wait."""
        self._made: tuple[Plan, str] | None = None
        """The last plan, with its id."""
        self._asked: Sequence[str] = ()
        """Partitions of the last call of `place`."""
        self._next: Sequence[str] = ()
        """Partitions that a plan has changed, which are asked for together."""
        self._replicas: dict[str, tuple[PlacedReplica, ...]] = {}
        """The replicas of partitions since the last event."""
        past = None if history is None else PastTenants.of(history)
        self._ask(events.MakeCluster(settings=plain(config), seed=seed, history=past))

    def __getattr__(self, method: str) -> Callable[..., None]:
        """Return a method of the engine that a kind of event stands for; it lets such an event wait."""
        if method not in METHODS:
            raise AttributeError(f"a served engine has no {method}")
        kind = METHODS[method]

        def tell(*values: Any, now: float | None = None) -> None:
            self._tell(kind(**dict(zip(kind.own_fields(), map(plain, values), strict=True)), now=now))

        return tell

    def report_loads(self, replica_index: Int, loads: Float, *, at: float | None = None) -> None:
        """Report the loads of m replicas, (m, R), by their indices, (m,), at the time `at`; None: the latest time."""
        now = at if at is not None and at > self._now else None
        self._tell(events.ReportLoads(indices=replica_index.tolist(), loads=loads.tolist(), at=at, now=now))

    def replicas(self, partition: str) -> tuple[PlacedReplica, ...]:
        """Return the replicas of a partition."""
        if partition not in self._replicas:
            names = [*dict.fromkeys([partition, *self._next])]
            (answer,) = self._ask(reads=[ReadReplicas(partitions=names)])["reads"]
            if "error" in answer:
                raise RemoteError(f"{self._address}: {answer['error']['detail']}")
            self._replicas = {name: tuple(map(_placed_replica, answer[name])) for name in names}
            self._next = ()
        return self._replicas[partition]

    def place(self, partition: Sequence[str], *, now: float) -> Plan:
        """Return a plan with places for the missing replicas of partitions."""
        return self._plan(events.RequestPlan(call="place", partitions=[*partition], now=now))

    def repair(self, *, now: float) -> Plan:
        """Return a plan that repairs broken constraints."""
        return self._plan(events.RequestPlan(call="repair", now=now))

    def balance(self, *, now: float) -> Plan:
        """Return a plan that lowers the energy."""
        return self._plan(events.RequestPlan(call="balance", now=now))

    def apply(self, plan: Plan, *, leaving: bool = False) -> None:
        """Apply the last plan; another plan raises `ConflictError`."""
        if self._made is None or plan is not self._made[0]:
            raise ConflictError("apply: a served engine applies the last plan that it has made, once")
        self._tell(events.ApplyPlan(plan=self._made[1], leaving=leaving))
        self._made, self._next = None, [*self._asked, *(move.partition for move in plan.moves)][: MOST_PARTITIONS - 1]

    def _tell(self, event: events.HostEvent) -> None:
        """Let an event wait for the next line."""
        self._waiting.append(event)
        self._now = event.time(self._now)
        self._replicas, self._next = {}, ()
        self._work += event.weight
        if self._work >= MOST_WAITING:
            self._ask()

    def _plan(self, request: events.RequestPlan) -> Plan:
        """Return the plan that a request asks for."""
        self._asked = request.partitions or ()
        self._now = request.time(self._now)
        record = self._ask(request)["plan"]
        if record["status"] != "ready":
            raise RemoteError(f"{self._address}: plan {record['id']} is {record['status']}: {record['error']}")
        plan = plan_of(record["document"])
        self._made = plan, record["id"]
        return plan

    def _ask(self, *last: events.HostEvent | events.MakeCluster, reads: Sequence[AnyRead] = ()) -> Document:
        """Send the events that wait, then these and questions, and return the answer to all."""
        line = Line(cluster=self._cluster, events=[*self._waiting, *last], reads=[*reads])
        self._waiting, self._work = [], 0
        data = msgspec.json.encode(line) + b"\n"
        while (answer := self._exchange(data)).get("error", {}).get("status") == TOO_MANY:
            time.sleep(PAUSE_SECONDS)
        if "error" in answer:
            raise RemoteError(f"{self._address}: {answer['error']['detail']}")
        for refused in answer["refusals"]:
            event = line.events[refused["event"]]
            raise RemoteError(f"{self._address}: {event.kind}: {refused['problem']['detail']}")
        return answer

    def _exchange(self, line: bytes) -> Document:
        """Send a line and return the answer."""
        if len(line) > LONGEST:
            raise InvalidValueError("engine", "bytes of a line", len(line), f"at most {LONGEST}")
        try:
            self._connection.sendall(line)
            data = self._answers.readline()
        except OSError as error:
            raise RemoteError(f"{self._address}: {error}") from None
        if not data.endswith(b"\n"):
            raise RemoteError(f"{self._address}: the service has closed the connection")
        answer: Document = msgspec.json.decode(data)
        return answer


def _placed_replica(document: Document) -> PlacedReplica:
    """Return the replica that a document describes."""
    return PlacedReplica(**{**document, "role": Role[document["role"].upper()]})


def connect(address: str) -> socket.socket:
    """Return a connection to an address; raise `RemoteError` if nothing answers there."""
    allowed = f"{TCP}HOST:PORT or {UNIX}/PATH"
    try:
        if address.startswith(UNIX):
            with ExitStack() as opened:
                connection = opened.enter_context(socket.socket(socket.AF_UNIX))
                connection.connect(address.removeprefix(UNIX))
                opened.pop_all()
            return connection
        if not address.startswith(TCP):
            raise InvalidValueError("simulate", "--engine", address, allowed)
        connection = socket.create_connection(host_and_port("simulate", "--engine", address.removeprefix(TCP), allowed))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection
    except OSError as error:
        raise RemoteError(f"{address}: no service answers ({error}); start it with plb serve --lines") from None


def _close(*files: Any) -> None:
    """Close what is open."""
    for file in files:
        file.close()


def check_scenario(scenario: Scenario) -> None:
    """Raise `ScenarioError` if a policy of a scenario needs a file, which a service does not read."""
    if scenario.extensions:
        raise refusal(scenario.name, "extensions", "a served engine has no extensions; simulate without --engine")
    for name in scenario.run.policies:
        search, _ = scenario._search(name)
        if path_options(POLICIES.get(search)):
            message = f"policy {search} reads a file, and a served engine reads none; simulate without --engine"
            raise refusal(scenario.name, f"policies.{name}", message)


def served(experiment: Experiment, address: str) -> Experiment:
    """Return an experiment whose engines run at a service."""
    check_scenario(experiment.scenario)
    connect(address).close()
    return attrs.evolve(experiment, engine_of=cast(type[PlacementAndLoadBalancing], partial(RemoteEngine, address)))
