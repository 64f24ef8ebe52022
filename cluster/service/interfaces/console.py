"""The console: one page about a cluster, which templates write and a small script keeps up to date.

The page works without the script, except for decisions on plans. Each of its parts is served alone, too: the script
fetches a part again when the cluster has changed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import quote, urlencode

import msgspec
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from msgspec import Struct
from starlette.concurrency import run_in_threadpool
from starlette.responses import FileResponse, HTMLResponse, Response

from cluster.service.interfaces import reads
from cluster.service.interfaces.access import Right
from cluster.service.interfaces.operations import Call, Operation
from cluster.service.replica import OPEN
from cluster.service.service import LiveCluster
from plb import Node
from plb.model import DeactivationIntent
from plb.model.documents import Document
from plb.model.plan import Energy, moves_of
from plb.validation import check_known

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


Values: TypeAlias = dict[str, Any]
"""What a template needs."""


class MapChoice(Struct, frozen=True):
    """What the address of the page chooses."""

    cluster: str = ""
    """Name of the cluster; empty: the first one."""
    by: str = ""
    """What colours the map: `RISK`, or the name of a metric after ``load:``; empty: the first metric."""
    node: str = ""
    """Name of the node that is open; empty: none."""
    plan: str = ""
    """Id of the plan that is shown with all moves; empty: none."""
    before: str = ""
    """The log begins below this sequence number; no number: at its end."""
    part: str = ""
    """The part of the page that is asked for; another name: the page."""

    def link(self, **changes: str | int | None) -> str:
        """Return the address of a page with changes."""
        fields = {**msgspec.structs.asdict(self), "part": None, **changes}
        return "?" + urlencode({name: value for name, value in fields.items() if value not in ("", None)})


class Tile(NamedTuple):
    """A node on the map."""

    name: str
    text: str
    """The number that colours the tile, with a mark if the node is out of service."""
    classes: str
    """CSS classes of the colour and the border."""
    title: str
    """The content of the tile in words."""


def percent(share: float) -> str:
    """Return a share in percent, rounded down, so that below a limit is never shown as at it."""
    if 0 < share < 0.01:
        return "<0.1%" if share < 0.001 else f"{math.floor(share * 1000) / 10:g}%"
    return f"{math.floor(share * 100 + 1e-9)}%"


def level(share: float, limits: Sequence[float]) -> str:
    """Return the class of the colour of a share: ``l`` and the number of `limits` that it has reached."""
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


def tile_of(node: Node, by: str, number: float) -> Tile:
    """Return a node with what `by` chooses of it (`numbers_of`), and what shows that it is out of service."""
    metric, state = by.removeprefix("load:"), state_of(node)
    capacity = node.capacities.get(metric)
    if by == RISK:
        text, colour = percent(number), level(number, RISKS)
        title = f"violation with a probability of {text}"
    elif capacity is None:
        text, colour, title = figure(number), "none", f"{metric} {figure(number)}, no limit"
    else:
        share = number / capacity if capacity else (math.inf if number else 0.0)
        text, colour = "over" if math.isinf(share) else percent(share), level(share, LOADS)
        title = f"{metric} {figure(number)} of {figure(capacity)}"
    if not state:
        return Tile(node.name, text, colour, title)
    return Tile(node.name, f"{text} {'‖' if node.up else '✕'}", f"{colour} out", f"{title}, {state}")


def numbers_of(live: LiveCluster, by: str) -> dict[str, float]:
    """Return what `by` chooses of each node: its probability of a violation, or its load of a metric."""
    if by == RISK:
        return reads.violation_probabilities(live)
    metric, names = by.removeprefix("load:"), live.reader.engine.config.metric_names
    check_known("metric", metric, names)
    return {name: loads[metric] for name, loads in reads.node_loads(live).items()}


def map_of(nodes: Sequence[Node], numbers: Mapping[str, float], by: str) -> Values:
    """Return nodes by domain, with the numbers that `by` chooses (`numbers_of`).

    ``columns``: fault domains; ``rows``: upgrade domains, each with the tiles by column; ``legend``: classes of
    colours, with their ranges in words; ``shown``: what the numbers are.
    """
    tiles = [tile_of(node, by, numbers[node.name]) for node in nodes]
    cells: dict[tuple[str, str], list[Tile]] = {}
    for tile, column, row in zip(tiles, fault_domains(nodes), upgrade_domains(nodes), strict=True):
        cells.setdefault((row, column), []).append(tile)
    columns = sorted({column for _, column in cells}, key=natural)
    rows = sorted({row for row, _ in cells}, key=natural)
    return {
        "columns": columns,
        "rows": [(row, [cells.get((row, column), []) for column in columns]) for row in rows],
        "legend": legend(RISKS if by == RISK else LOADS),
        "shown": RISK_WORDS if by == RISK else f"load of {by.removeprefix('load:')} as a share of the capacity",
    }


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
    tiles = {metric: tile_of(node, f"load:{metric}", load) for metric, load in loads.items()}
    risk = tile_of(node, RISK, reads.violation_probabilities(live)[name])
    return {"node": node, "state": state_of(node), "tiles": tiles, "risk": risk, "replicas": replicas}


def energies_of(document: Document) -> list[tuple[str, float, float]]:
    """Return the terms of the energies of a plan that are not 0, the sum first."""
    before, after = (
        {"sum, weighted": energy["total"], **Energy(**energy).terms}
        for energy in (document["energy_before"], document["energy_after"])
    )
    return [(name.replace("_", " "), value, after[name]) for name, value in before.items() if value or after[name]]


def moves_in_words(moves: Sequence[Document]) -> list[tuple[str, str]]:
    """Return moves of a plan in words, each with its reason."""
    return [(str(move), part["reason"]) for move, part in zip(moves_of({"moves": moves}), moves, strict=True)]


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
    environment.filters |= {"figure": figure, "moment": moment, "energies": energies_of, "in_words": moves_in_words}
    environment.globals |= {"map_of": map_of, "most_moves": MOST_MOVES, "most_named": MOST_NAMED}
    return environment


def html_of(template: str, **values: Any) -> Markup:
    """Return what a template makes of values."""
    return Markup(templates().get_template(f"{template}.html").render(**values))


def plans(live: LiveCluster, _choice: MapChoice) -> Values:
    """Return the open plans and the last closed plans, the latest first."""
    plans = [*reversed(live.reader.state.plans.values())]
    closed = [plan for plan in plans if plan.status not in OPEN]
    return {
        "open": [plan for plan in plans if plan.status in OPEN],
        "closed": closed[:MOST_CLOSED],
        "is_stale": live.reader.is_stale,
    }


def violations(live: LiveCluster, _choice: MapChoice) -> Values:
    """Return the violations."""
    violations = reads.violations(live)
    return {"violations": violations[:MOST_VIOLATIONS], "count": len(violations)}


def nodes(live: LiveCluster, choice: MapChoice) -> Values:
    """Return the nodes and the numbers that colour them."""
    return {"nodes": live.reader.engine.nodes, "numbers": numbers_of(live, choice.by)}


def node(live: LiveCluster, choice: MapChoice) -> Values:
    """Return the node that is open."""
    return {"open": node_of(live, choice.node), "metrics": live.reader.engine.config.metric_names}


async def log(call: Call, choice: MapChoice) -> Values:
    """Return the latest entries of the log."""
    before = int(choice.before[:18]) if choice.before.isdecimal() else None
    return {"lines": await call.service.latest(choice.cluster, before), "failure": call.service.failure}


PARTS = {"plans": plans, "violations": violations, "map": nodes, "node": node, "log": None}
"""What the template of each part needs; `log` reads the log."""


async def part_of(call: Call, name: str, choice: MapChoice, common: Values) -> Markup:
    """Return a part of the page; a thread writes it, so that requests are answered meanwhile."""
    function = PARTS[name]
    values = await log(call, choice) if function is None else function(call.service.cluster(choice.cluster), choice)
    return await run_in_threadpool(html_of, name, **values, **common)


async def page(call: Call) -> Response:
    """Return the page, or the part of the page that the parameter ``part`` names."""
    clusters, choice, right = sorted(call.service.clusters), call.query, call.actor.right
    if not clusters:
        return HTMLResponse(html_of("page", choice=None))
    choice = msgspec.structs.replace(choice, cluster=choice.cluster or clusters[0])
    live = call.service.cluster(choice.cluster)
    engine, sequence = live.reader.engine, live.sequence
    choice = msgspec.structs.replace(choice, by=choice.by or f"load:{engine.config.metric_names[0]}")
    common = {
        "choice": choice,
        "may_report": right >= Right.REPORT,
        "may_apply": right >= Right.APPLY,
        "address": f"/v1/clusters/{quote(choice.cluster, safe='')}/plans",
    }
    if choice.part in PARTS:
        return HTMLResponse(await part_of(call, choice.part, choice, common))
    values = {
        "clusters": clusters,
        "parts": {name: await part_of(call, name, choice, common) for name in PARTS},
        "options": {**{f"load:{name}": f"load: {name}" for name in engine.config.metric_names}, RISK: RISK_WORDS},
        "sequence": sequence,
        "searches": any(plan.is_searching for plan in live.reader.state.plans.values()),
    }
    return HTMLResponse(html_of("page", **values, **common))


async def file(call: Call) -> Response:
    """Return a file that the page loads."""
    name = call.request.url.path.rpartition("/")[2]
    return FileResponse(PAGE / name, media_type=FILES[name])


OPERATIONS = (
    Operation("GET", "/", page, query=MapChoice),
    *(Operation("GET", f"/console/{name}", file, right=None) for name in FILES),
)
"""Operations for browsers; the description of the interface omits these operations."""
