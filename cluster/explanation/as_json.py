"""What `plb explain --json` writes: all data of an explanation as plain values, under stable keys."""

from __future__ import annotations

from typing import Any

import attrs

from cluster.explanation.explanation import Explanation
from plb import Alternatives, ClosedNode, Place
from plb.energy.terms import weighted_terms
from plb.model.unplaced import RuledOut


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
        "replicas": [_replica(found, one) for one in found.replicas],
        "node_shares": {node: dict(shares) for node, shares in found.shares.items()},
    }


def _replica(found: Explanation, one: Alternatives) -> dict[str, Any]:
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
