"""What `plb explain` writes: history and places of a tenant as text, or all data as plain values for `--json`."""

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
from plb.model.outcome import RuledOut
from plb.phrasing import counted, listed, rule_in_words

SMALLEST = 5e-7
"""Smaller changes of an energy are not shown: they are due to rounding."""


def render(explanation: Explanation, best: int) -> Iterator[RenderableType]:
    """Yield the parts of the printed explanation, with up to `best` other feasible and infeasible nodes."""
    yield from _head(explanation)
    if explanation.events:
        yield ""
        yield _history(explanation)
    if explanation.leaving:
        yield f"Replicas of it are still on {listed(explanation.leaving)}, which they are leaving."
    for replica in explanation.replicas:
        yield ""
        yield from _replica_as_text(explanation, replica, best)


def _head(explanation: Explanation) -> Iterator[str]:
    """Yield the lines on tenant, time and run, and on a tenant that is absent."""
    stay, run, time = explanation.stay, explanation.run, in_words(explanation.time_s)
    tenant = f"{stay.tenant} of class {stay.tenant_class}"
    yield f"{tenant} at {time} ({explanation.time_s} s), under {run.policy}, repeat {run.repeat + 1}"
    if explanation.status == "not arrived":
        yield f"It is not there yet: it arrives at {in_words(stay.arrival_s)} ({stay.arrival_s} s)."
    elif explanation.status == "departed":
        yield f"It is there no more: it left at {in_words(stay.departure_s)} ({stay.departure_s} s)."


def _history(explanation: Explanation) -> Table:
    """Return a table of the events of the tenant."""
    table = Table("time", "event", title_justify="left", box=None, padding=(0, 2, 0, 0))
    for event in explanation.events:
        table.add_row(in_words(event.time_s), event.text)
    return table


def _replica_as_text(explanation: Explanation, replica: Alternatives, best: int) -> Iterator[RenderableType]:
    """Yield the text and tables on a replica, with up to `best` other feasible and infeasible nodes."""
    yield Text(_verdict(explanation, replica), style="bold")
    if replica.diagnosis:
        yield _diagnosis_table(replica.diagnosis, replica.nodes)
    if replica.given_up:
        rules = listed([rule_in_words(rule) for rule in replica.given_up])
        why = "which it breaks on its node" if replica.standing else "which placement relaxes"
        yield f"Not checked: {rules}, {why}."
    if replica.others:
        yield _places(explanation, replica, best)
        yield from _comparison(explanation, replica)
    if replica.standing is None and not replica.places:
        yield from _changes(replica, best)


def _verdict(explanation: Explanation, replica: Alternatives) -> str:
    """Return the sentences on where a replica is and how many nodes would take it."""
    role = replica.role.name.lower()
    if replica.standing is None:
        return f"The {role} is not placed: of {counted(replica.nodes, 'node')}, {_other_nodes(replica)} would take it."
    text = f"The {role} is on {replica.standing.node}: of {counted(replica.nodes - 1, 'other node')}, "
    text += f"{_other_nodes(replica)} would take it."
    if _asks_risk(explanation):
        text += f" The probability of a violation of its node is {replica.standing.violation_probability:.3f}."
    if replica.rank is None:
        text += " Its own node is no longer feasible."
    if replica.immovable is not None:
        text += f" It may not move: {replica.immovable.value}."
    return text


def _other_nodes(replica: Alternatives) -> str:
    """Return in words how many other nodes would take a replica."""
    return str(len(replica.others)) if replica.others else "none"


def _asks_risk(explanation: Explanation) -> bool:
    """Return whether the engine's settings use violation probabilities."""
    return explanation.config is not None and explanation.config.reads_probabilities


def _diagnosis_table(diagnosis: Sequence[RuledOut], nodes: int) -> Table:
    """Return a table of the rules that rule out nodes, of `nodes` in all, each with the number of nodes left."""
    table = Table(title="infeasible nodes, each with the first rule that it fails", title_justify="left")
    table.add_column("rule", no_wrap=True)
    table.add_column("nodes", justify="right")
    table.add_column("left", justify="right")
    table.add_column("why", overflow="fold")
    left = nodes
    for rule in diagnosis:
        left -= rule.nodes
        table.add_row(rule_in_words(rule.rule), str(rule.nodes), str(left), str(rule))
    return table


def _places(explanation: Explanation, replica: Alternatives, best: int) -> Table:
    """Return a table of the `best` feasible nodes of a replica, compared in energy with its node, or else the best."""
    assert explanation.config is not None
    base = replica.standing or replica.places[0]
    places = {base.node: base, **{place.node: place for place in replica.places[: best + 1]}}
    shown_places = list(places.values())[: best + 1]
    terms_by_node = {place.node: weighted_terms(explanation.config, place.energy) for place in shown_places}
    base_terms = terms_by_node[base.node]
    changes = {
        node: {name: value - base_terms[name] for name, value in terms.items()} for node, terms in terms_by_node.items()
    }
    names = [name for name in base_terms if any(abs(terms[name]) > SMALLEST for terms in changes.values())]
    base_name = "its node" if replica.standing else "the best node"
    table = Table(title=f"the best nodes by energy, compared with {base_name}", title_justify="left")
    table.add_column("node", no_wrap=True)
    for heading in ("energy", *map(rule_in_words, names)):
        table.add_column(heading, justify="right")
    if _asks_risk(explanation):
        table.add_column("violation probability", justify="right")
    metrics = list(explanation.shares[base.node])
    for metric in metrics:
        table.add_column(f"{metric} now", justify="right")
    for place in shown_places:
        total = place.energy.total - base.energy.total
        cells = [place.node, _change(total), *(_change(changes[place.node][name]) for name in names)]
        cells += [f"{place.violation_probability:.3f}"] if _asks_risk(explanation) else []
        shares = explanation.shares[place.node]
        table.add_row(*cells, *(f"{shares[metric]:.0%}" if metric in shares else "-" for metric in metrics))
    return table


def _change(value: float) -> str:
    """Return a change of an energy as text."""
    return f"{value:+.4f}" if abs(value) > SMALLEST else "0"


def _comparison(explanation: Explanation, replica: Alternatives) -> Iterator[str]:
    """Yield sentences that compare the energy of a replica's node with the best other node."""
    assert explanation.config is not None
    if explanation.decided_by is not None:
        yield f"The policy {explanation.decided_by} decides. It does not use this energy."
        return
    if replica.standing is None or not replica.others:
        return
    best = replica.others[0]
    change = best.energy.total - replica.standing.energy.total
    if change >= 0:
        yield f"No other node would lower the energy; {best.node} would raise it least, by {change:.4f}."
        yield from _price_of_move(explanation, replica, best)
    else:
        yield f"{best.node} would lower the energy by {-change:.4f}."
        if explanation.config.min_load_balancing_interval is None:
            yield "Balancing is off in this scenario: replicas move only for violations, faults and new replicas."


def _price_of_move(explanation: Explanation, replica: Alternatives, best: Place) -> Iterator[str]:
    """Yield a sentence if a replica stays only for the cost of a move; `best`: the other node of least energy."""
    config, standing = explanation.config, replica.standing
    assert config is not None
    assert standing is not None
    if config.combination is not Combination.ADDITIVE:
        return

    def price(place: Place) -> float:
        return weighted_terms(config, place.energy)["movement"]

    def without_move(place: Place) -> float:
        return place.energy.total - price(place)

    cheapest = min(replica.others, key=without_move)
    saved = without_move(standing) - without_move(cheapest)
    if saved > SMALLEST:
        yield f"A move costs {price(best):g}. Without that, {cheapest.node} would lower the energy by {saved:.4f}."


def _changes(replica: Alternatives, best: int) -> Iterator[RenderableType]:
    """Yield a table of the changes that would let the nearest `best` nodes take a replica, then further nodes."""
    table = Table(title="what would have to change, on one of these nodes", title_justify="left")
    table.add_column("node", no_wrap=True)
    table.add_column("all of this", overflow="fold")
    for closed in replica.closed[:best]:
        table.add_row(closed.node, "\n".join(closed.changes))
    yield table
    other_nodes = [closed for closed in replica.nearest if closed not in replica.closed[:best]]
    for closed in other_nodes:
        rules = " and ".join(map(rule_in_words, closed.rules))
        yield f"Nearest of those that fail {rules}: {closed.node}: {'; '.join(closed.changes)}."


def as_json(explanation: Explanation) -> dict[str, Any]:
    """Return an explanation as plain values."""
    return {
        "tenant": explanation.stay.tenant,
        "tenant_class": explanation.stay.tenant_class,
        "replicas_wanted": explanation.stay.replicas,
        "arrival_s": explanation.stay.arrival_s,
        "departure_s": explanation.stay.departure_s,
        "policy": explanation.run.policy,
        "repeat": explanation.run.repeat,
        "time_s": explanation.time_s,
        "status": explanation.status,
        "decided_by": explanation.decided_by,
        "events": [attrs.asdict(event) for event in explanation.events],
        "leaving": list(explanation.leaving),
        "replicas": [_replica_as_json(explanation, replica) for replica in explanation.replicas],
        "node_shares": {node: dict(shares) for node, shares in explanation.shares.items()},
    }


def _replica_as_json(explanation: Explanation, replica: Alternatives) -> dict[str, Any]:
    """Return a replica with its nodes as plain values."""
    return {
        "role": replica.role.name.lower(),
        "index": replica.index,
        "node": None if replica.standing is None else replica.standing.node,
        "standing": None if replica.standing is None else _place(explanation, replica.standing),
        "rank": replica.rank,
        "immovable": None if replica.immovable is None else replica.immovable.value,
        "nodes": replica.nodes,
        "diagnosis": [_ruled_out_as_json(rule) for rule in replica.diagnosis],
        "given_up": list(replica.given_up),
        "places": [_place(explanation, place) for place in replica.places],
        "closed": [_closed(closed) for closed in replica.closed],
    }


def _place(explanation: Explanation, place: Place) -> dict[str, Any]:
    """Return a feasible node with its energy as plain values."""
    assert explanation.config is not None
    return {
        "node": place.node,
        "energy": place.energy.total,
        "terms": place.energy.terms,
        "parts": weighted_terms(explanation.config, place.energy),
        "violation_probability": place.violation_probability,
    }


def _ruled_out_as_json(rule: RuledOut) -> dict[str, Any]:
    """Return a rule with the number of nodes that fail it as plain values."""
    numbers = attrs.asdict(rule, filter=attrs.filters.exclude("words"))
    return {"rule": rule.rule, **numbers, "text": str(rule)}


def _closed(node: ClosedNode) -> dict[str, Any]:
    """Return an infeasible node with what would have to change as plain values."""
    return {
        "node": node.node,
        "distance": node.distance,
        "obstacles": [_ruled_out_as_json(obstacle) for obstacle in node.obstacles],
        "unmet": [attrs.asdict(clause) for clause in node.unmet],
        "changes": list(node.changes),
    }
