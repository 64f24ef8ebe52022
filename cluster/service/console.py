"""The console: one page about a cluster, which templates write and a small script keeps up to date.

The page works without the script, except for decisions on plans. Each of its parts is served alone, too: the script
fetches a part again when the cluster has changed.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import quote, urlencode

import attrs
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, Response
from starlette.routing import Route

from cluster.service import reads
from cluster.service.access import Right, needs
from cluster.service.documents import Document, moves_of
from cluster.service.events import Engine
from cluster.service.log import EntryInBrief
from cluster.service.replica import OPEN, PlanRecord
from cluster.service.service import LiveCluster, PlacementService
from plb import Node
from plb.errors import UnknownNameError
from plb.model import DeactivationIntent
from plb.model.plan import Energy

PAGE = Path(__file__).parent / "page"
FILES = {"console.css": "text/css", "console.js": "text/javascript", "icon.svg": "image/svg+xml"}
"""Files that the page loads, with their types."""
RISK, RISK_WORDS = "risk", "probability of a violation"
"""Colours by the probability of a violation, instead of the load of a metric."""
LOADS, RISKS = (0.25, 0.5, 0.7, 0.85, 1.0), (0.001, 0.01, 0.05, 0.1, 0.25)
"""Where the colours of loads as shares of capacity, and of probabilities, change."""
MOST_COLUMNS, MOST_ROWS = 16, 40
"""Most fault and upgrade domains that are shown apart."""
MOST_NAMED = 120
"""Most nodes whose names are shown on the map."""
MOST_MOVES, MOST_CLOSED, MOST_VIOLATIONS = 50, 5, 30
"""Most moves of a plan, plans that are closed, and violations that are shown at first."""


@attrs.frozen
class MapChoice:
    """What the address of the page chooses."""

    cluster: str
    by: str
    """What colours the map: `RISK`, or the name of a metric after ``load:``."""
    node: str = ""
    """Name of the node that is open; empty: none."""
    plan: str = ""
    """Id of the plan that is shown with all moves; empty: none."""
    before: int | None = None
    """The log begins below this sequence number; None: at its end."""

    @classmethod
    def of(cls, query: Mapping[str, str], clusters: Iterable[str], metric: Callable[[str], str]) -> MapChoice:
        """Return the choice of an address; `metric` returns the first metric of a cluster."""
        cluster = query.get("cluster") or min(clusters)
        before = query.get("before", "")
        return cls(
            cluster,
            query.get("by") or f"load:{metric(cluster)}",
            query.get("node", ""),
            query.get("plan", ""),
            int(before[:18]) if before.isdecimal() else None,
        )

    def link(self, **changes: str | int | None) -> str:
        """Return the address with changes."""
        fields = {**attrs.asdict(self), **changes}
        return "?" + urlencode({name: value for name, value in fields.items() if value not in ("", None)})


@attrs.frozen
class Tile:
    """A node on the map."""

    name: str
    text: str
    """The number that colours it, with a mark if the node is out of service."""
    classes: str
    """Classes of its colour and border."""
    title: str
    """What it shows, in words."""


@attrs.frozen
class Map:
    """The nodes by domain."""

    columns: Sequence[str]
    """Fault domains."""
    rows: Sequence[tuple[str, Sequence[Sequence[Tile]]]]
    """Upgrade domains, each with the tiles by column."""
    legend: Sequence[tuple[str, str]]
    """Classes of colours, with their ranges in words."""
    shown: str
    """What the numbers are."""
    nodes: int


@attrs.frozen
class PlanView:
    """A plan, as the console shows it."""

    record: PlanRecord
    stale: bool
    moves: Sequence[tuple[str, str]]
    """The moves that are shown, in words, and their reasons."""
    count: int
    """Number of all moves."""
    energies: Sequence[tuple[str, float, float]]
    """Terms that are not 0, each before and after the moves; the sum first."""
    address: str
    """Path of the plan in the interface over HTTP."""

    @property
    def is_open(self) -> bool:
        """Whether it may still be discarded."""
        return self.record.status in OPEN

    @property
    def is_ready(self) -> bool:
        """Whether it can be applied."""
        return self.record.status.value == "ready" and not self.stale

    @property
    def left_out(self) -> list[str]:
        """Replicas without a node, and those that could not leave theirs, with reasons."""
        document = self.record.document or {}
        return [replica["reason"] for name in ("unplaced", "undrained") for replica in document.get(name, ())]


def percent(share: float) -> str:
    """Return a share in percent, rounded down, so that below a limit is never shown as at it."""
    if 0 < share < 0.01:
        return "<0.1%" if share < 0.001 else f"{math.floor(share * 1000) / 10:g}%"
    return f"{math.floor(share * 100 + 1e-9)}%"


def level(share: float, limits: Sequence[float]) -> str:
    """Return the class of the colour of a share."""
    return f"l{sum(share >= limit for limit in limits)}"


def legend(limits: Sequence[float]) -> list[tuple[str, str]]:
    """Return the classes of colours with their ranges in words."""
    texts = [f"{100 * limit:g}" for limit in limits]
    between = [f"{low}–{high}%" for low, high in pairwise(texts)]
    words = [f"below {texts[0]}%", *between, f"at least {texts[-1]}%"]
    return [(f"l{index}", text) for index, text in enumerate(words)]


def state_of(node: Node) -> str:
    """Return why nothing is placed on a node, in words; empty: it is in service."""
    if not node.up:
        return "down"
    intent = node.deactivation_intent
    return "" if intent is DeactivationIntent.NONE else f"deactivated: {intent.value}"


def fault_domains(nodes: Sequence[Node]) -> list[str]:
    """Return the fault domain of each node, at the lowest level that has at most `MOST_COLUMNS` of them."""
    paths = [node.fault_domain_path if node.fault_domain is not None else ("none",) for node in nodes]
    for depth in range(max(map(len, paths), default=1), 0, -1):
        names = ["/".join(path[:depth]) for path in paths]
        if len({*names}) <= MOST_COLUMNS:
            return names
    return ["all"] * len(nodes)


def upgrade_domains(nodes: Sequence[Node]) -> list[str]:
    """Return the upgrade domain of each node; all are one if there are more than `MOST_ROWS`."""
    names = ["none" if node.upgrade_domain is None else node.upgrade_domain for node in nodes]
    return names if len({*names}) <= MOST_ROWS else ["all"] * len(nodes)


def natural(name: str) -> tuple[int, str]:
    """Return the key of names that end in numbers: shorter names first."""
    return len(name), name


def tile_of(node: Node, text: str, colour: str, title: str) -> Tile:
    """Return a node on the map, with what shows that it is out of service."""
    state = state_of(node)
    if not state:
        return Tile(node.name, text, colour, title)
    return Tile(node.name, f"{text} {'‖' if node.up else '✕'}", f"{colour} out", f"{title}, {state}")


def tile_by_risk(node: Node, risk: float) -> Tile:
    """Return a node with its probability of a violation."""
    return tile_of(node, percent(risk), level(risk, RISKS), f"violation with a probability of {percent(risk)}")


def tile_by_load(node: Node, metric: str, load: float) -> Tile:
    """Return a node with its load of a metric."""
    capacity = node.capacities.get(metric)
    if capacity is None:
        return tile_of(node, figure(load), "none", f"{metric} {figure(load)}, no limit")
    share = load / capacity if capacity else (math.inf if load else 0.0)
    text = "over" if math.isinf(share) else percent(share)
    return tile_of(node, text, level(share, LOADS), f"{metric} {figure(load)} of {figure(capacity)}")


def numbers_of(live: LiveCluster, by: str) -> dict[str, float]:
    """Return what `by` chooses of each node: its probability of a violation, or its load of a metric."""
    if by == RISK:
        return reads.violation_probabilities(live)
    metric, names = by.removeprefix("load:"), live.reader.engine.config.metric_names
    if metric not in names:
        raise UnknownNameError("metric", metric, names)
    return {name: loads[metric] for name, loads in reads.node_loads(live).items()}


def map_of(nodes: Sequence[Node], numbers: Mapping[str, float], by: str) -> Map:
    """Return nodes by domain, with the numbers that `by` chooses (`numbers_of`)."""
    metric = by.removeprefix("load:")
    tiles = [
        tile_by_risk(node, numbers[node.name]) if by == RISK else tile_by_load(node, metric, numbers[node.name])
        for node in nodes
    ]
    cells: dict[tuple[str, str], list[Tile]] = {}
    for tile, column, row in zip(tiles, fault_domains(nodes), upgrade_domains(nodes), strict=True):
        cells.setdefault((row, column), []).append(tile)
    columns = sorted({column for _, column in cells}, key=natural)
    rows = sorted({row for row, _ in cells}, key=natural)
    shown = f"load of {metric} as a share of the capacity"
    return Map(
        columns,
        [(row, [cells.get((row, column), []) for column in columns]) for row in rows],
        legend(RISKS if by == RISK else LOADS),
        RISK_WORDS if by == RISK else shown,
        len(nodes),
    )


def options_of(engine: Engine) -> dict[str, str]:
    """Return what may colour the map: values of `MapChoice.by`, in words."""
    return {**{f"load:{name}": f"load: {name}" for name in engine.config.metric_names}, RISK: RISK_WORDS}


def node_of(live: LiveCluster, name: str) -> dict[str, Any] | None:
    """Return a node with its loads and replicas; None: it is not known."""
    engine = live.reader.engine
    node = next((node for node in engine.nodes if node.name == name), None)
    if node is None:
        return None
    replicas = [
        (partition, replica)
        for partition in engine.partitions_on(name)
        for replica in engine.replicas(partition)
        if replica.node == name
    ]
    loads = reads.node_loads(live)[name]
    tiles = {metric: tile_by_load(node, metric, load) for metric, load in loads.items()}
    risk = tile_by_risk(node, reads.violation_probabilities(live)[name])
    return {"node": node, "state": state_of(node), "tiles": tiles, "risk": risk, "replicas": replicas}


def energies_of(document: Document) -> list[tuple[str, float, float]]:
    """Return the terms of the energies of a plan that are not 0, the sum first."""
    before, after = (
        {"sum, weighted": energy["total"], **Energy(**energy).terms}
        for energy in (document["energy_before"], document["energy_after"])
    )
    return [(name.replace("_", " "), value, after[name]) for name, value in before.items() if value or after[name]]


def path_of(cluster: str) -> str:
    """Return the path of the plans of a cluster in the interface over HTTP."""
    return f"/v1/clusters/{quote(cluster, safe='')}/plans"


def plan_view(live: LiveCluster, record: PlanRecord, choice: MapChoice) -> PlanView:
    """Return a plan as the console shows it."""
    document = record.document if record.error is None else None
    moves = document["moves"] if document else []
    stale = live.reader.is_stale(record)
    shown = moves if choice.plan == record.id else moves[:MOST_MOVES]
    texts = [(str(move), part["reason"]) for move, part in zip(moves_of({"moves": shown}), shown, strict=True)]
    address = f"{path_of(choice.cluster)}/{quote(record.id, safe='')}"
    return PlanView(record, stale, texts, len(moves), energies_of(document) if document else [], address)


def figure(value: float) -> str:
    """Return a number with up to four digits, or all before the point."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def moment(seconds: float) -> datetime:
    """Return a time in seconds since 1970."""
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=0)


@cache
def templates() -> Environment:
    """Return the templates; whatever is put into them is escaped."""
    environment = Environment(
        loader=FileSystemLoader(PAGE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"figure": figure, "moment": moment}
    return environment


def html_of(template: str, **values: Any) -> Markup:
    """Return what a template makes of values."""
    return Markup(templates().get_template(f"{template}.html").render(**values))


Values: TypeAlias = dict[str, Any]
"""What the template of a part needs."""


class Console:
    """The parts of the page; each returns what its template needs."""

    def __init__(self, service: PlacementService) -> None:
        self._service = service
        self.parts: dict[str, Callable[[MapChoice], Awaitable[Values]]] = {
            "plans": self.plans,
            "violations": self.violations,
            "map": self.map,
            "node": self.node,
            "log": self.log,
        }

    def _live(self, choice: MapChoice) -> LiveCluster:
        return self._service.cluster(choice.cluster)

    async def plans(self, choice: MapChoice) -> Values:
        """Return the open plans and the last closed ones, the latest first."""
        live = self._live(choice)
        plans = [plan_view(live, record, choice) for record in reversed(live.reader.state.plans.values())]
        closed = [plan for plan in plans if not plan.is_open]
        return {"open": [plan for plan in plans if plan.is_open], "closed": closed[:MOST_CLOSED]}

    async def violations(self, choice: MapChoice) -> Values:
        """Return the violations."""
        violations = reads.violations(self._live(choice))
        return {"violations": violations[:MOST_VIOLATIONS], "count": len(violations)}

    async def map(self, choice: MapChoice) -> Values:
        """Return the nodes by domain."""
        live = self._live(choice)
        nodes = await run_in_threadpool(map_of, live.reader.engine.nodes, numbers_of(live, choice.by), choice.by)
        return {"map": nodes, "link": choice.link(node=None) + "&node=", "named": nodes.nodes <= MOST_NAMED}

    async def node(self, choice: MapChoice) -> Values:
        """Return the node that is open."""
        live = self._live(choice)
        return {"open": node_of(live, choice.node), "metrics": live.reader.engine.config.metric_names}

    async def log(self, choice: MapChoice) -> Values:
        """Return the latest entries of the log."""
        lines: list[EntryInBrief] = await self._service.latest(choice.cluster, choice.before)
        return {"lines": lines, "failure": self._service.failure}

    async def part(self, name: str, choice: MapChoice, rights: Values) -> Markup:
        """Return a part of the page; a thread writes it, so that requests are answered meanwhile."""
        values = await self.parts[name](choice)
        return await run_in_threadpool(html_of, name, **values, **rights, choice=choice)

    def choice(self, query: Mapping[str, str]) -> MapChoice:
        """Return the choice of an address."""
        return MapChoice.of(
            query,
            self._service.clusters,
            lambda name: self._service.cluster(name).reader.engine.config.metric_names[0],
        )

    async def page(self, request: Request) -> Response:
        """Return the page, or with the parameter ``part`` a part of it."""
        clusters, query = sorted(self._service.clusters), request.query_params
        if not clusters:
            return HTMLResponse(html_of("page", choice=None))
        choice, right = self.choice(query), request.state.actor.right
        rights = {"may_report": right >= Right.REPORT, "may_apply": right >= Right.APPLY}
        live = self._live(choice)
        sequence = live.sequence
        if query.get("part") in self.parts:
            return HTMLResponse(await self.part(query["part"], choice, rights))
        parts = {name: await self.part(name, choice, rights) for name in self.parts}
        values = {
            "clusters": clusters,
            "choice": choice,
            "parts": parts,
            "options": options_of(live.reader.engine),
            "sequence": sequence,
            "address": path_of(choice.cluster),
            "searches": any(plan.is_searching for plan in live.reader.state.plans.values()),
        }
        return HTMLResponse(html_of("page", **values, **rights))


def routes(service: PlacementService) -> list[Route]:
    """Return the routes of the console."""

    @needs(Right.READ)
    async def page(request: Request) -> Response:
        return await console.page(request)

    @needs(None)
    async def file(request: Request) -> Response:
        name = request.url.path.rpartition("/")[2]
        return FileResponse(PAGE / name, media_type=FILES[name])

    console = Console(service)
    return [Route("/", page, methods=["GET"]), *(Route(f"/console/{name}", file, methods=["GET"]) for name in FILES)]
