"""Documents: what clients and the service exchange as objects of JSON, and the model of the engine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, TypeVar

import attrs
import numpy as np

from plb import Metric, Partition, PlbConfig, Replica
from plb.errors import InvalidValueError
from plb.model.move import Move, MoveKind, Phase, Reason
from plb.model.outcome import Proposals, Refused, Unplaced
from plb.model.plan import Energy, Plan
from plb.model.role import Role
from plb.model.rules import Breach, Violation

Kind = TypeVar("Kind")
Document = dict[str, Any]
"""An object of JSON."""

LISTS: Mapping[type, Mapping[str, type]] = {Partition: {"replicas": Replica}, PlbConfig: {"metrics": Metric}}
"""Fields that are lists of objects, by class."""
COUNTS = ("scored", "reached_monte_carlo", "accepted")
"""Numbers of proposals of a plan besides all."""


def fields_of(kind: type) -> dict[str, Any]:
    """Return the attributes of a class that a document has, by name."""
    return {name: field for name, field in attrs.fields_dict(kind).items() if field.init}


def read(kind: type[Kind], document: Any, item: str) -> Kind:
    """Return the object of the class `kind` that a document describes; `item` names it in errors.

    The class checks the values. A document that is no object, lacks a field or has an unknown one raises
    `InvalidValueError`.
    """
    fields = fields_of(kind)
    values = dict(check_object(document, item, fields))
    for name, field in fields.items():
        if field.default is attrs.NOTHING and name not in values:
            raise InvalidValueError(item, name, None, "a value, as it has no default")
    for name, member in LISTS.get(kind, {}).items():
        if name in values:
            values[name] = [
                read(member, value, f"{item}: {name}[{index}]")
                for index, value in enumerate(check_list(values[name], item, name))
            ]
    return kind(**values)


def check_object(document: Any, item: str, fields: Iterable[str]) -> Mapping[str, Any]:
    """Return a document that is an object with no other fields than these; raise `InvalidValueError` otherwise."""
    if not isinstance(document, dict):
        raise InvalidValueError(item, "document", document, "an object")
    allowed = list(fields)
    for name in document:
        if name not in allowed:
            raise InvalidValueError(item, str(name), document[name], f"no such field, but {', '.join(allowed)}")
    return document


def check_list(value: Any, item: str, field: str) -> list[Any]:
    """Return a value that is a list; raise `InvalidValueError` otherwise."""
    if not isinstance(value, list):
        raise InvalidValueError(item, field, value, "a list")
    return value


def plain(value: Any) -> Any:
    """Return a value of the model as values of JSON: roles and enumerations by name, records as objects."""
    if isinstance(value, Role):
        return value.name.lower()
    if isinstance(value, Enum):
        return value.value
    if attrs.has(type(value)):
        return {name: plain(getattr(value, name)) for name in fields_of(type(value))}
    if isinstance(value, Mapping):
        return {plain(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, set | frozenset):
        return sorted(map(plain, value))
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    return value if value != float("inf") else None


def of_move(move: Move) -> Document:
    """Return the document of a move, with its reason in words and in numbers."""
    reason = move.reason
    details = {name: plain(getattr(reason, name)) for name in ("node", "metric", "numbers", "term", "other")}
    return {
        "kind": move.kind.value,
        "partition": move.partition,
        "role": move.role.name.lower(),
        "source": move.source,
        "target": move.target,
        "phase": reason.phase.value,
        "rule": reason.rule,
        "reason": str(reason),
        "details": {**details, "breach": None if reason.breach is None else of_violation(reason.breach)},
        "cost": move.cost,
        "index": move.index,
    }


def of_plan(plan: Plan) -> Document:
    """Return the document of a plan: its moves, its energies, and what it leaves out."""
    return {
        "moves": [*map(of_move, plan.moves)],
        "energy_before": plain(plan.energy_before),
        "energy_after": plain(plan.energy_after),
        "unplaced": [*map(of_replica_that_stays, plan.unplaced)],
        "undrained": [*map(of_replica_that_stays, plan.undrained)],
        "phases": [phase.value for phase in plan.phases],
        "end_reason": plan.end_reason,
        "proposals": plan.proposals.generated,
        **{name: getattr(plan.proposals, name) for name in COUNTS},
        "actions": dict(plan.actions),
        "bound_by": [*plan.bound_by],
        "reproducible": plan.reproducible,
    }


def of_replica_that_stays(replica: Unplaced) -> Document:
    """Return the document of a replica without a node, or on a node that has to be emptied."""
    return {
        "partition": replica.partition,
        "role": replica.role.name.lower(),
        "node": getattr(replica, "node", None),
        "reason": str(replica),
        "nodes": replica.nodes,
        "ruled_out": dict(replica.ruled_out),
    }


def of_violation(violation: Violation) -> Document:
    """Return the document of a violation, in numbers and in words."""
    names = ("node", "metric", "partition", "domain")
    fields = {name: getattr(violation, name, None) for name in names}
    return {"rule": violation.rule, **fields, "numbers": plain(violation.numbers), "text": str(violation)}


@attrs.frozen
class DescribedBreach(Breach):
    """A broken constraint that a document describes."""

    rule: str
    text: str
    """The constraint in words."""
    domain: str | None
    numbers: Mapping[str, float]

    def __str__(self) -> str:
        return self.text


def reason_of(move: Mapping[str, Any]) -> Reason:
    """Return the reason in the document of a move."""
    details = dict(move["details"])
    breach = details.pop("breach")
    if breach is not None:
        breach = DescribedBreach(**{name: breach[name] for name in attrs.fields_dict(DescribedBreach)})
    return Reason(Phase(move["phase"]), move["rule"], breach=breach, **details)


def moves_of(document: Mapping[str, Any]) -> tuple[Move, ...]:
    """Return the moves of the document of a plan."""
    return tuple(
        Move(
            kind=MoveKind(move["kind"]),
            partition=move["partition"],
            role=Role[move["role"].upper()],
            source=move["source"],
            target=move["target"],
            reason=reason_of(move),
            cost=move["cost"],
            index=move["index"],
        )
        for move in document["moves"]
    )


def plan_of(document: Mapping[str, Any]) -> Plan:
    """Return the plan of a document, without the outcomes for service domains and the replicas that have to leave."""
    return Plan(
        moves=moves_of(document),
        energy_before=Energy(**document["energy_before"]),
        energy_after=Energy(**document["energy_after"]),
        unplaced=tuple(map(unplaced_of, document["unplaced"])),
        end_reason=document["end_reason"],
        phases=tuple(map(Phase, document["phases"])),
        proposals=Proposals(document["proposals"], *(document[name] for name in COUNTS)),
        bound_by=tuple(document["bound_by"]),
        actions=document["actions"],
        reproducible=document["reproducible"],
    )


def unplaced_of(document: Mapping[str, Any]) -> Unplaced:
    """Return the replica without a node of a document."""
    diagnosis = tuple(Refused(rule, nodes) for rule, nodes in document["ruled_out"].items())
    return Unplaced(document["partition"], Role[document["role"].upper()], document["nodes"], diagnosis)
