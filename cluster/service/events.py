"""Events: what changes a cluster, one class a kind. Each is logged before it takes effect."""

from __future__ import annotations

import gc
import re
from collections.abc import Iterable, Mapping
from functools import cached_property
from itertools import chain
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

import msgspec
import numpy as np
from msgspec import Meta, Struct

from cluster.service.past_tenants import PastTenants
from plb import Application, Budget, Node, Partition, PlacementAndLoadBalancing, PlbConfig, Service
from plb.array_types import Float
from plb.errors import InvalidValueError, PlbError
from plb.model.documents import Document, read
from plb.risk import DemandHistory
from plb.validation import check_name

LATEST = float(2**53)
"""Latest time, and the earliest with the other sign, in seconds: whole seconds are exact up to it."""
Time: TypeAlias = Annotated[float, Meta(ge=-LATEST, le=LATEST)]
"""A time in seconds of the host's clock."""
Engine: TypeAlias = PlacementAndLoadBalancing


def _document(kind: type) -> Meta:
    """Return what the description of the interface says of a field that holds an object of a class of the model."""
    return Meta(extra_json_schema={"$ref": f"#/components/schemas/{kind.__name__}"})


LONGEST_NAME, LONGEST_ID = 1000, 200
"""Most letters of a name, and of the id of an event."""


def check_length(item: str, name: str) -> None:
    """Raise `InvalidValueError` if the name of an item is too long."""
    if len(name) > LONGEST_NAME:
        raise InvalidValueError(item, "name", name, f"at most {LONGEST_NAME} letters")


CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
"""Letters that would break or forge a line of the log."""
SUBJECTS = ("name", "plan", "partition", "node", "service", "application")
"""Fields with the subject of an event: a name, or an object with a name."""
MOST_FIELDS, MOST_NAMES = 1000, 10_000
"""Most entries of an object, and of a list, in a description."""
MOST_METRICS = 100
"""Metrics of a cluster."""
MOST_REPLICAS = 1000
"""Replicas of a partition that a service asks for."""
MOST_PLACED = 100_000
"""Partitions that a plan is to place."""


def named_by(subjects: Iterable[Any]) -> str:
    """Return the names that the fields `SUBJECTS` of an event have."""
    names = (value.get("name") if isinstance(value, dict) else value for value in subjects)
    return " ".join(name for name in names if isinstance(name, str))


def check_text(item: str, field: str, text: str) -> None:
    """Raise `InvalidValueError` for a text with control characters."""
    if CONTROL.search(text):
        raise InvalidValueError(item, field, text, "a text without control characters")


def check_cluster_name(name: str) -> None:
    """Raise `InvalidValueError` unless a cluster may have a name, which is a part of paths."""
    check_length("cluster", check_name("cluster", name))
    check_text("cluster", "name", name)
    if "/" in name or name in (".", ".."):
        raise InvalidValueError("cluster", "name", name, "a name without /, other than . and ..")


def check_size(item: str, field: str, size: int, most: int) -> None:
    """Raise `InvalidValueError` if there are more than `most`."""
    if size > most:
        raise InvalidValueError(item, f"number of {field}", size, f"at most {most:,}")


def check_values(item: str, field: str, value: Any) -> None:
    """Raise `InvalidValueError` for control characters in a value, and for a value of very many parts."""
    if isinstance(value, str) and field != "placement_constraint":
        check_text(item, field, value)
    elif isinstance(value, dict):
        check_size(item, field, len(value), MOST_FIELDS)
        for key, part in value.items():
            check_text(item, f"name in {field}", key)
            check_values(item, key, part)
    elif isinstance(value, list):
        check_size(item, field, len(value), MOST_NAMES)
        for part in value:
            check_values(item, field, part)


class RequestError(PlbError):
    """A request is damaged, or a value in it has another type than it should have.

    `field`: path of the value in the document; `problem`: what is wrong, in words.
    """

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(field, problem)
        self.item, self.field, self.problem = "request", field, problem
        self._message = f"request: {field}: {problem}"


class ClusterEvent(Struct, kw_only=True, forbid_unknown_fields=True, tag_field="type", omit_defaults=True):
    """A change that a host describes."""

    is_structural: ClassVar[bool] = True
    """Whether plans that were made before it are stale afterwards."""
    method: ClassVar[str] = ""
    """Method of the engine that takes the fields of the event; empty: the method has the name of the kind."""
    takes_time: ClassVar[bool] = False
    """Whether the method takes the time of the event, too."""
    columns: ClassVar[tuple[str, ...]] = ()
    """Fields with long lists."""
    now: Time | None = None
    """When it happens; None: at the latest time."""
    id: Annotated[str, Meta(max_length=LONGEST_ID)] | None = None
    """Name of the event that its client chose; an event with the id of an earlier one is not applied again."""

    @property
    def kind(self) -> str:
        """Value of the field ``type``."""
        return str(self.__struct_config__.tag)

    @property
    def weight(self) -> int:
        """Work to apply it, in units of a usual event."""
        return 1

    @property
    def makes_stale(self) -> bool:
        """Whether this one makes earlier plans stale."""
        return self.is_structural

    @property
    def subject(self) -> str:
        """Names of the subject of the event; empty: the cluster."""
        return named_by(getattr(self, name) for name in SUBJECTS if name in self.own_fields())

    @classmethod
    def own_fields(cls) -> list[str]:
        """Return the names of the fields that not all events have."""
        return [name for name in cls.__struct_fields__ if name not in ClusterEvent.__struct_fields__]

    def time(self, latest: float) -> float:
        """Return the time at which the event takes effect; `latest`: time of the cluster before the event."""
        return latest if self.now is None else self.now

    def prepare(self) -> None:
        """Make the objects that all replicas of the cluster need to apply the event."""

    def apply(self, engine: Engine, now: float) -> None:
        """Apply the event to an engine at the time `now`; after an error nothing has changed."""
        fields = {name: getattr(self, name) for name in self.own_fields()}
        values = [self.part(name) if isinstance(value, dict) else value for name, value in fields.items()]
        getattr(engine, self.method or self.kind)(*values, **({"now": now} if self.takes_time else {}))

    def __post_init__(self) -> None:
        """Raise an error if an object that the event describes is invalid or has too long a name."""
        for name in self.__struct_fields__:
            if isinstance(getattr(self, name), dict) and name in PARTS:
                check_length(name, getattr(self.part(name), "name", ""))

    def admit(self) -> None:
        """Raise `PlbError` for what no client may send, but the log may have of earlier versions."""
        if self.id == "":
            raise RequestError("id", "Expected at least 1 letter")
        for name in ("id", *self.own_fields()):
            if name not in self.columns:
                check_values(self.kind, name, getattr(self, name))

    def part(self, name: str) -> Any:
        """Return the object of the model that a field describes; an invalid description raises `PlbError`."""
        return read(PARTS[name], getattr(self, name), name)


class PutNode(ClusterEvent, tag="node"):
    """Add a node, or replace the node of this name."""

    method = "update_node"
    takes_time = True
    node: Annotated[Document, _document(Node)]


class PutService(ClusterEvent, tag="service"):
    """Add a service, or replace the service of this name."""

    method = "update_service"
    service: Annotated[Document, _document(Service)]

    def admit(self) -> None:
        """Also refuse more replicas than can be explained."""
        super().admit()
        check_size(self.kind, "target_replicas", self.service.get("target_replicas", 1), MOST_REPLICAS)


class PutPartition(ClusterEvent, tag="partition"):
    """Add a partition, or update its replicas."""

    method = "update_partition"
    partition: Annotated[Document, _document(Partition)]


class PutApplication(ClusterEvent, tag="application"):
    """Add an application, or replace the application of this name."""

    method = "update_application"
    application: Annotated[Document, _document(Application)]


class OfSettings(ClusterEvent):
    """An event with settings."""

    settings: Annotated[Document, _document(PlbConfig)]

    def admit(self) -> None:
        """Also refuse very many metrics."""
        super().admit()
        check_size(self.kind, "metrics", len(self.settings.get("metrics", ())), MOST_METRICS)


class Configure(OfSettings, tag="settings"):
    """Replace the settings; the metrics keep their names."""

    method = "configure"


class OfName(ClusterEvent):
    """An event with the name of its subject."""

    name: Annotated[str, Meta(min_length=1)]


class RemoveNode(OfName, tag="remove_node"):
    """Remove a node that has no replicas."""

    takes_time = True


class DrainNode(OfName, tag="drain_node"):
    """Deactivate a node, so that repairs empty it."""

    takes_time = True


class UndrainNode(OfName, tag="undrain_node"):
    """End the deactivation of a node."""

    takes_time = True


class RemoveService(OfName, tag="remove_service"):
    """Remove a service that has no partitions."""


class RemovePartition(OfName, tag="remove_partition"):
    """Remove a partition with its replicas."""


class RemoveApplication(OfName, tag="remove_application"):
    """Remove an application; its services keep its name."""


class Vacate(ClusterEvent, tag="vacate"):
    """The departing end of a move has left its node."""

    partition: str
    node: str


class SetUpgradedDomains(ClusterEvent, tag="upgraded_domains"):
    """Set the upgrade domains that the running upgrade has finished; none means that no upgrade runs."""

    method = "update_upgraded_domains"
    domains: list[str]


class ReportLoads(ClusterEvent, tag="loads", dict=True):
    """Loads of m replicas as columns; each replica is given by its partition and its node, or by its index."""

    columns = ("loads", "partitions", "nodes", "indices")
    is_structural: ClassVar[bool] = False
    loads: list[list[float]]
    """(m, R) loads in user units, metrics in the order of the settings."""
    partitions: list[str] = []
    """(m,) names of partitions."""
    nodes: list[str] = []
    """(m,) names of nodes."""
    indices: list[Annotated[int, Meta(ge=0, le=2**63 - 1)]] | None = None
    """(m,) indices as in `PlacedReplica`, instead of `partitions` and `nodes`; also of replicas without a node."""
    at: Time | None = None
    """Time of the loads, if they are of the past; see `report_loads`."""

    @property
    def weight(self) -> int:
        """Work to apply it, in units of a usual event."""
        return 1 + len(self.loads) // 10

    def __post_init__(self) -> None:
        """Raise `InvalidValueError` unless the columns have one length and loads rows of one length."""
        sizes = [len(self.partitions), len(self.nodes), len(self.loads)]
        if self.indices is not None:
            if self.partitions or self.nodes:
                raise InvalidValueError(self.kind, "indices", "given", "none beside partitions and nodes")
            sizes = [len(self.indices), len(self.loads)]
        if len(set(sizes)) > 1:
            raise InvalidValueError(self.kind, "the columns", sizes, "lists of one length")
        if len({len(row) for row in self.loads}) > 1:
            raise InvalidValueError(self.kind, "loads", self.loads, "rows of one length")

    @cached_property
    def matrix(self) -> Float:
        """The loads as an array, (m, R), for all replicas of the cluster; not to be changed."""
        values = np.fromiter(chain.from_iterable(self.loads), np.float64)
        return values.reshape(len(self.loads), -1) if self.loads else np.zeros((0, 0))

    def prepare(self) -> None:
        """Make the array of the loads."""
        self.matrix  # noqa: B018

    def apply(self, engine: Engine, now: float) -> None:
        """Report the loads to an engine; none without a time of their own change nothing."""
        if self.at is not None and self.at > now:
            raise InvalidValueError(self.kind, "at", self.at, f"a time up to now, {now!r}")
        if self.loads:
            rows = engine.replica_indices(self.partitions, self.nodes) if self.indices is None else self.indices
            engine.report_loads(np.array(rows, np.int64), self.matrix, at=self.at)
        elif self.at is not None:
            engine.report_loads(np.zeros(0, np.int64), np.zeros((0, len(engine.config.metrics))), at=self.at)


class RequestPlan(ClusterEvent, tag="plan"):
    """Ask for a plan of the cluster as it is after the events before this one.

    It is made while other requests are answered, and changes nothing until it is applied.
    """

    is_structural: ClassVar[bool] = False
    columns = ("partitions",)
    call: Literal["refresh", "place", "repair", "balance"] = "refresh"
    """The call of the engine."""
    partitions: list[str] | None = None
    """Names of the partitions to place; None: all that miss a replica."""
    proposals: int | None = None
    """Budget of proposals; None: as configured."""
    seconds: float | None = None
    """Budget of wall time; a plan that it ends is not reproducible, and is kept as it came out."""

    def __post_init__(self) -> None:
        if self.partitions is not None and self.call != "place":
            raise InvalidValueError(self.kind, "partitions", self.partitions, 'none, except with call = "place"')
        self.budget()

    def admit(self) -> None:
        """Also refuse partitions that are given twice, and very many."""
        super().admit()
        names = self.partitions or []
        check_size(self.kind, "partitions", len(names), MOST_PLACED)
        if len({*names}) < len(names):
            raise InvalidValueError(self.kind, "partitions", f"{len(names)} names", "each name once")

    def budget(self) -> Budget:
        """Return the budget of the search."""
        return Budget(proposals=self.proposals, seconds=self.seconds)


class OfPlan(ClusterEvent):
    """An event of a plan that was made."""

    plan: str
    """Id of the plan."""


class ApplyPlan(OfPlan, tag="apply"):
    """Carry out a plan that is ready: exactly its moves."""

    leaving: bool = False
    """True: the moves have begun, and each source keeps a departing end until its event ``vacate``."""


class ReportOutcomes(OfPlan, tag="outcomes"):
    """Moves of a plan that was carried out, by position, that failed or were refused: they are taken back."""

    columns = ("failed",)
    failed: list[Annotated[int, Meta(ge=0, lt=2**31)]]

    @property
    def makes_stale(self) -> bool:
        """Whether any move is taken back."""
        return bool(self.failed)

    def admit(self) -> None:
        """Also refuse positions that are given twice."""
        super().admit()
        if len({*self.failed}) < len(self.failed):
            raise InvalidValueError(self.kind, "failed", f"{len(self.failed)} positions", "each position once")


class DiscardPlan(OfPlan, tag="discard"):
    """Give a plan up: its search ends, and it cannot be carried out any more."""

    is_structural: ClassVar[bool] = False


class PlanMade(OfPlan, tag="made"):
    """The service's own event: a search has ended."""

    is_structural: ClassVar[bool] = False
    document: Document
    """The document of the plan, or of the error that ended the search."""


class MakeCluster(OfSettings, tag="cluster"):
    """The first event of a cluster."""

    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)] = 0
    """Seed of the searches."""
    history: PastTenants | None = None
    """Past tenants, from which Monte Carlo samples demand; the log has them in this event only."""

    def past(self) -> DemandHistory | None:
        """Return the demand history of the cluster; None: it has none."""
        return None if self.history is None else self.history.history()

    def engine(self, history: DemandHistory | None) -> Engine:
        """Return an engine without nodes; `history`: what `past` returns."""
        return PlacementAndLoadBalancing(self.part("settings"), seed=self.seed, history=history)


class RemoveCluster(ClusterEvent, tag="remove_cluster"):
    """Remove a cluster: its searches and streams end, the log keeps its events, and a new cluster may have its name."""


PARTS: Mapping[str, type] = {
    "node": Node,
    "service": Service,
    "partition": Partition,
    "application": Application,
    "settings": PlbConfig,
}
"""Classes of the model that fields of events describe, by the name of the field."""


PutEvent: TypeAlias = PutNode | PutService | PutPartition | PutApplication | Configure
RemoveEvent: TypeAlias = RemoveNode | RemoveService | RemovePartition | RemoveApplication
StateEvent: TypeAlias = DrainNode | UndrainNode | SetUpgradedDomains | Vacate | ReportLoads
PlanEvent: TypeAlias = RequestPlan | ApplyPlan | ReportOutcomes | DiscardPlan
HostEvent: TypeAlias = PutEvent | RemoveEvent | StateEvent | PlanEvent
"""The events of hosts."""
LoggedEvent: TypeAlias = HostEvent | MakeCluster | RemoveCluster | PlanMade
"""The events of the log."""
ITEMS: Mapping[str, tuple[type[ClusterEvent], type[ClusterEvent]]] = {
    "node": (PutNode, RemoveNode),
    "service": (PutService, RemoveService),
    "partition": (PutPartition, RemovePartition),
    "application": (PutApplication, RemoveApplication),
}
"""The events that put and remove an item, by its kind."""
LOGGED = msgspec.msgpack.Decoder(LoggedEvent)
ENCODER = msgspec.msgpack.Encoder()


def decoded(data: bytes | dict[str, Any], kind: Any, *, packed: bool = False, first: Any = None) -> Any:
    """Return the value of a type from JSON, with `packed` from MessagePack, or from its fields.

    `first`: a type with fewer parts, which the data must have before they are read: lengths are checked after items.

    Raise `PlbError` if the data are damaged, a field is unknown or missing, or a value is out of its range.
    """
    gc.disable()  # to look at new objects again and again would take longer than to read them
    try:
        if isinstance(data, dict):
            return msgspec.convert(data, kind)
        decode = msgspec.msgpack.decode if packed else msgspec.json.decode
        if first is not None:
            decode(data, type=first)
        return decode(data, type=kind)
    except msgspec.ValidationError as error:
        if isinstance(error.__cause__, PlbError):
            raise error.__cause__ from None
        raise request_error(error, "document") from None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise RequestError("document", str(error)) from None
    finally:
        gc.enable()


def request_error(error: msgspec.ValidationError, whole: str) -> RequestError:
    """Return an error of a value as one of a request; `whole` is its field if the error is of no part."""
    problem, _, place = str(error).partition(" - at ")
    return RequestError(place.strip("`").removeprefix("$").removeprefix(".") or whole, problem)
