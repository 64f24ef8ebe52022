"""What `plb explain --json` writes: all data of an explanation as plain values, under stable keys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import attrs
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from cluster.explanation.explanation import Explanation
from cluster.scenario.times import in_words
from plb import Alternatives, ClosedNode, Combination, Place
from plb.energy.terms import weighted_terms
from plb.model.unplaced import RuledOut
from plb.phrasing import counted, listed, rule_in_words

SMALLEST = 5e-7
"""Smaller changes of an energy are not shown: they are due to rounding."""


def render(found: Explanation, best: int) -> Iterator[RenderableType]:
    """Yield the parts of the printed explanation, with up to `best` other feasible and infeasible nodes."""
    yield from _head(found)
    if found.events:
        yield ""
        yield _history(found)
    if found.leaving:
        yield f"Replicas of it are still on {listed(found.leaving)}, which they are leaving."
    for one in found.replicas:
        yield ""
        yield from _replica_as_text(found, one, best)


def _head(found: Explanation) -> Iterator[str]:
    stay, run, when = found.stay, found.run, in_words(found.time_s)
    who = f"{stay.tenant} of class {stay.tenant_class}"
    yield f"{who} at {when} ({found.time_s} s), under {run.policy}, repeat {run.repeat + 1}"
    if found.status == "not arrived":
        yield f"It is not there yet: it arrives at {in_words(stay.arrival_s)} ({stay.arrival_s} s)."
    elif found.status == "departed":
        yield f"It is there no more: it left at {in_words(stay.departure_s)} ({stay.departure_s} s)."


def _history(found: Explanation) -> Table:
    table = Table("time", "event", title_justify="left", box=None, padding=(0, 2, 0, 0))
    for event in found.events:
        table.add_row(in_words(event.time_s), event.text)
    return table


def _replica_as_text(found: Explanation, one: Alternatives, best: int) -> Iterator[RenderableType]:
    yield Text(_verdict(found, one), style="bold")
    if one.diagnosis:
        yield _diagnosis_table(one.diagnosis, one.nodes)
    if one.given_up:
        rules = listed([rule_in_words(rule) for rule in one.given_up])
        why = "which it breaks on its node" if one.standing else "which placement relaxes"
        yield f"Not checked: {rules}, {why}."
    if one.others:
        yield _places(found, one, best)
        yield from _comparison(found, one)
    if one.standing is None and not one.places:
        yield from _changes(one, best)


def _verdict(found: Explanation, one: Alternatives) -> str:
    role = one.role.name.lower()
    if one.standing is None:
        return f"The {role} is not placed: of {counted(one.nodes, 'node')}, {_so_many(one)} would take it."
    text = f"The {role} is on {one.standing.node}: of {counted(one.nodes - 1, 'other node')}, "
    text += f"{_so_many(one)} would take it."
    if _asks_risk(found):
        text += f" The probability of a violation of its node is {one.standing.violation_probability:.3f}."
    if one.rank is None:
        text += " Its own node is no longer feasible."
    if one.immovable is not None:
        text += f" It may not move: {one.immovable.value}."
    return text


def _so_many(one: Alternatives) -> str:
    return str(len(one.others)) if one.others else "none"


def _asks_risk(found: Explanation) -> bool:
    return found.config is not None and found.config.reads_probabilities


def _diagnosis_table(diagnosis: Sequence[RuledOut], nodes: int) -> Table:
    table = Table(title="infeasible nodes, each with the first rule that it fails", title_justify="left")
    table.add_column("rule", no_wrap=True)
    table.add_column("nodes", justify="right")
    table.add_column("left", justify="right")
    table.add_column("why", overflow="fold")
    left = nodes
    for one in diagnosis:
        left -= one.nodes
        table.add_row(rule_in_words(one.rule), str(one.nodes), str(left), str(one))
    return table


def _places(found: Explanation, one: Alternatives, best: int) -> Table:
    """Return the feasible nodes of a replica, with the difference of the energy to its present node.

    For a replica that is not placed it is the difference to the best node.
    """
    assert found.config is not None
    base = one.standing or one.places[0]
    first = {base.node: base, **{place.node: place for place in one.places[: best + 1]}}
    shown = list(first.values())[: best + 1]
    parts = {place.node: weighted_terms(found.config, place.energy) for place in shown}
    present = parts[base.node]
    changes = {node: {name: value - present[name] for name, value in there.items()} for node, there in parts.items()}
    names = [name for name in present if any(abs(there[name]) > SMALLEST for there in changes.values())]
    what = "its node" if one.standing else "the best node"
    table = Table(title=f"the best nodes by energy, compared with {what}", title_justify="left")
    table.add_column("node", no_wrap=True)
    for heading in ("energy", *map(rule_in_words, names)):
        table.add_column(heading, justify="right")
    if _asks_risk(found):
        table.add_column("violation probability", justify="right")
    metrics = list(found.shares[base.node])
    for metric in metrics:
        table.add_column(f"{metric} now", justify="right")
    for place in shown:
        total = place.energy.total - base.energy.total
        cells = [place.node, _change(total), *(_change(changes[place.node][name]) for name in names)]
        cells += [f"{place.violation_probability:.3f}"] if _asks_risk(found) else []
        shares = found.shares[place.node]
        table.add_row(*cells, *(f"{shares[metric]:.0%}" if metric in shares else "-" for metric in metrics))
    return table


def _change(value: float) -> str:
    return f"{value:+.4f}" if abs(value) > SMALLEST else "0"


def _comparison(found: Explanation, one: Alternatives) -> Iterator[str]:
    """Yield sentences on the energy of the node of a replica."""
    assert found.config is not None
    if found.decided_by is not None:
        yield f"The policy {found.decided_by} decides. It does not use this energy."
        return
    if one.standing is None or not one.others:
        return
    best = one.others[0]
    change = best.energy.total - one.standing.energy.total
    if change >= 0:
        yield f"No other node would lower the energy; {best.node} would raise it least, by {change:.4f}."
        yield from _price_of_move(found, one, best)
    else:
        yield f"{best.node} would lower the energy by {-change:.4f}."
        if found.config.min_load_balancing_interval is None:
            yield "Balancing is off in this scenario: replicas move only for violations, faults and new replicas."


def _price_of_move(found: Explanation, one: Alternatives, best: Place) -> Iterator[str]:
    """Yield a sentence if only the cost of a move keeps a replica on its node."""
    config, standing = found.config, one.standing
    assert config is not None
    assert standing is not None
    if config.combination is not Combination.ADDITIVE:
        return

    def price(place: Place) -> float:
        return weighted_terms(config, place.energy)["movement"]

    def without_move(place: Place) -> float:
        return place.energy.total - price(place)

    cheapest = min(one.others, key=without_move)
    saved = without_move(standing) - without_move(cheapest)
    if saved > SMALLEST:
        yield f"A move costs {price(best):g}. Without that, {cheapest.node} would lower the energy by {saved:.4f}."


def _changes(one: Alternatives, best: int) -> Iterator[RenderableType]:
    """Yield what would have to change for the nearest nodes to take a replica."""
    table = Table(title="what would have to change, on one of these nodes", title_justify="left")
    table.add_column("node", no_wrap=True)
    table.add_column("all of this", overflow="fold")
    for closed in one.closed[:best]:
        table.add_row(closed.node, "\n".join(closed.changes))
    yield table
    rest = [closed for closed in one.nearest if closed not in one.closed[:best]]
    for closed in rest:
        rules = " and ".join(map(rule_in_words, closed.rules))
        yield f"Nearest of those that fail {rules}: {closed.node}: {'; '.join(closed.changes)}."


def as_json(found: Explanation) -> dict[str, Any]:
    """Return an explanation as plain values."""
    return {
        "tenant": found.stay.tenant,
        "tenant_class": found.stay.tenant_class,
        "replicas_wanted": found.stay.replicas,
        "arrival_s": found.stay.arrival_s,
        "departure_s": found.stay.departure_s,
        "policy": found.run.policy,
        "repeat": found.run.repeat,
        "time_s": found.time_s,
        "status": found.status,
        "decided_by": found.decided_by,
        "events": [attrs.asdict(event) for event in found.events],
        "leaving": list(found.leaving),
        "replicas": [_replica_as_json(found, one) for one in found.replicas],
        "node_shares": {node: dict(shares) for node, shares in found.shares.items()},
    }


def _replica_as_json(found: Explanation, one: Alternatives) -> dict[str, Any]:
    return {
        "role": one.role.name.lower(),
        "index": one.index,
        "node": None if one.standing is None else one.standing.node,
        "standing": None if one.standing is None else _place(found, one.standing),
        "rank": one.rank,
        "immovable": None if one.immovable is None else one.immovable.value,
        "nodes": one.nodes,
        "diagnosis": [_ruled_out_as_json(rule) for rule in one.diagnosis],
        "given_up": list(one.given_up),
        "places": [_place(found, place) for place in one.places],
        "closed": [_closed(closed) for closed in one.closed],
    }


def _place(found: Explanation, place: Place) -> dict[str, Any]:
    assert found.config is not None
    return {
        "node": place.node,
        "energy": place.energy.total,
        "terms": place.energy.terms,
        "parts": weighted_terms(found.config, place.energy),
        "violation_probability": place.violation_probability,
    }


def _ruled_out_as_json(one: RuledOut) -> dict[str, Any]:
    numbers = attrs.asdict(one, filter=attrs.filters.exclude("words"))
    return {"rule": one.rule, **numbers, "text": str(one)}


def _closed(one: ClosedNode) -> dict[str, Any]:
    return {
        "node": one.node,
        "distance": one.distance,
        "obstacles": [_ruled_out_as_json(obstacle) for obstacle in one.obstacles],
        "unmet": [attrs.asdict(clause) for clause in one.unmet],
        "changes": list(one.changes),
    }
