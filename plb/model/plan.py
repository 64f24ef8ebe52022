"""Plans: the moves that the engine proposes, and the replicas it could not place. Texts are made on request."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, overload

import attrs
import numpy as np

from plb.array_types import Array, Float, Int, made_again
from plb.errors import UnknownNameError
from plb.model.documents import SCHEMA_VERSION, Described, Document, object_schema, plain, schema_of
from plb.model.move import Move, MoveKind, Phase, Reason
from plb.model.outcome import UNREPORTED, DomainOutcome, Proposals, Refused, Undrained, Unplaced, added, why_it_stays
from plb.model.role import ROLES, Role
from plb.model.rules import Breach

KINDS = tuple(MoveKind)
"""The kinds of moves; a number in `PlanMoves.kind` is an index of it."""


def _read_only(values: Array) -> Array:
    """Return a read-only view of an array."""
    view = values.view()
    view.flags.writeable = False
    return view


@attrs.define(eq=False, repr=False)
class PlanMoves(Sequence[Move]):
    """A sequence of m moves as columns, equal to a tuple of the same moves. Arrays are read-only."""

    kind: Int = attrs.field(converter=_read_only)
    """(m,) kinds, as indices of `KINDS`."""
    partition: Sequence[str]
    """Names of partitions."""
    role: Int = attrs.field(converter=_read_only)
    """(m,) values of `Role`."""
    source: Sequence[str | None]
    """Names of nodes, or None."""
    target: Sequence[str | None]
    """Names of nodes, or None."""
    reason: Sequence[Reason]
    """Reasons of the moves."""
    cost: Float = attrs.field(converter=_read_only)
    """(m,) `Move.cost`."""
    row: Int = attrs.field(converter=_read_only)
    """(m,) `Move.index`."""
    _made: tuple[Move, ...] | None = attrs.field(default=None, init=False)
    """All moves as objects, once they were read; None before."""
    __reduce__ = made_again

    @classmethod
    def of(cls, moves: Sequence[Move]) -> PlanMoves:
        """Return moves as columns."""
        if isinstance(moves, PlanMoves):
            return moves
        return cls(
            kind=np.array([KINDS.index(move.kind) for move in moves], np.int64),
            partition=[move.partition for move in moves],
            role=np.array([move.role for move in moves], np.int64),
            source=[move.source for move in moves],
            target=[move.target for move in moves],
            reason=[move.reason for move in moves],
            cost=np.array([move.cost for move in moves], np.float64),
            row=np.array([move.index for move in moves], np.int64),
        )

    @classmethod
    def joined(cls, parts: Iterable[Sequence[Move]]) -> PlanMoves:
        """Return the moves of several sequences as one, in order."""
        columns = [cls.of(()), *(part for part in map(cls.of, parts) if len(part))]
        if len(columns) == 2:
            return columns[1]
        return cls(
            kind=np.concatenate([part.kind for part in columns]),
            partition=[name for part in columns for name in part.partition],
            role=np.concatenate([part.role for part in columns]),
            source=[name for part in columns for name in part.source],
            target=[name for part in columns for name in part.target],
            reason=[reason for part in columns for reason in part.reason],
            cost=np.concatenate([part.cost for part in columns]),
            row=np.concatenate([part.row for part in columns]),
        )

    def of_kinds(self, *kinds: MoveKind) -> list[str]:
        """Return the partition of each move of these kinds, in order."""
        chosen = np.isin(self.kind, [KINDS.index(kind) for kind in kinds])
        return [self.partition[row] for row in np.flatnonzero(chosen).tolist()]

    def __len__(self) -> int:
        """Return the number of moves."""
        return len(self.kind)

    def __iter__(self) -> Iterator[Move]:
        """Return an iterator over the moves, which are made once."""
        return iter(self._all())

    @overload
    def __getitem__(self, at: int) -> Move: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[Move, ...]: ...
    def __getitem__(self, at: int | slice) -> Move | tuple[Move, ...]:
        """Return a move, or the moves of a slice."""
        rows = range(len(self))[at]
        if isinstance(rows, range):
            return tuple(map(self._move, rows))
        return self._move(rows)

    def __eq__(self, other: object) -> bool:
        """Return whether `other`, moves as columns or a tuple, has the same moves."""
        if not isinstance(other, PlanMoves | tuple):
            return NotImplemented
        return len(self) == len(other) and self._all() == tuple(other)

    def __repr__(self) -> str:
        """Return the moves as a tuple shows its members."""
        return repr(self._all())

    def _move(self, row: int) -> Move:
        """Return the move of a row as an object."""
        if self._made is not None:
            return self._made[row]
        return Move(
            kind=KINDS[self.kind[row]],
            partition=self.partition[row],
            role=ROLES[self.role[row]],
            source=self.source[row],
            target=self.target[row],
            reason=self.reason[row],
            cost=float(self.cost[row]),
            index=int(self.row[row]),
        )

    def _all(self) -> tuple[Move, ...]:
        """Return all moves as objects."""
        if self._made is None:
            kinds, roles = map(KINDS.__getitem__, self.kind.tolist()), map(ROLES.__getitem__, self.role.tolist())
            names = self.partition, roles, self.source, self.target
            self._made = tuple(map(Move, kinds, *names, self.reason, self.cost.tolist(), self.row.tolist()))
        return self._made


@attrs.frozen
class Energy:
    """The energy of a configuration, with its terms."""

    total: float
    """The energy that the search minimised."""
    movement: float
    """m, in moves."""
    imbalance: float
    """I, mean coefficient of variation."""
    fragmentation: float
    """F, sum over the held-out nodes of the mean share in use."""
    expected_failovers: float
    """V, expected number of nodes in violation."""
    extension_terms: Mapping[str, float] = attrs.field(factory=dict, hash=False)
    """The extension terms by name, without their weights."""
    expected_overload: float = attrs.field(default=0.0, kw_only=True)
    """O, expected excess of nodes over their thresholds, relative to these, summed over nodes and metrics; 0 if its
    weight is 0.
    """

    def __add__(self, other: Energy) -> Energy:
        return added(self, other)

    @property
    def terms(self) -> dict[str, float]:
        """The terms by name."""
        fields = attrs.asdict(self)
        del fields["total"], fields["extension_terms"]
        return {**fields, **self.extension_terms}


@attrs.frozen
class Plan(Described):
    """The moves that the engine proposes, with their context."""

    moves: Sequence[Move]
    """In an order in which they can be applied. Those of an engine are equal to a tuple and made when looked at."""
    energy_before: Energy
    """Energy before the moves; `movement` is 0."""
    energy_after: Energy
    """Energy after the moves. A promoted secondary has the expected failovers of a primary only from the next plan on.
    """
    unplaced: tuple[Unplaced, ...] = ()
    """Missing replicas that found no node."""
    end_reason: str = "nothing to do"
    """Why the last search ended."""
    phases: tuple[Phase, ...] = ()
    """The phases that ran, in order."""
    proposals: Proposals = attrs.field(factory=Proposals)
    """The proposals of all searches."""
    bound_by: tuple[str, ...] = ()
    """Budgets that refused a proposal or delayed a repair: ``"moves"``, ``"node_moves"``, ``"service_moves"``."""
    actions: Mapping[str, str] = attrs.field(factory=dict)
    """The action for each service domain, by the name of its first service."""
    outcomes: tuple[DomainOutcome, ...] = ()
    """For each service domain: the phases that ran, why the others did not, and the replicas that may not move."""
    reproducible: bool = True
    """False if a time limit ended a search, instead of a number of proposals."""
    renewed: int = attrs.field(default=0, eq=False)
    """Replicas whose expected demand was computed again since the plan before: new ones, those with reports or other
    classes, and those whose age made it due. It does not count when plans are compared.
    """
    temperature: float | None = None
    """The temperature at the end of balancing, in units of the energy; the highest of several service domains. None: no
    balancing ran. `Budget.temperature` continues from it.
    """
    undrained: tuple[Undrained, ...] = ()
    """Replicas that stay on nodes that have to be emptied, if the plan looked for repairs."""

    def to_dict(self) -> Document:
        """Return the plan as an object of JSON, without `outcomes`: moves, energies, and what has no place, in words.

        Roles, kinds and phases are words. A reason has its rule and numbers, too.
        """
        return of_plan(self)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Plan:
        """Return the plan that `to_dict` describes: an engine applies it, and its texts are the same.

        Its broken constraints and unplaced replicas have their texts, not the classes of the engine's.
        """
        return plan_of(document)

    @classmethod
    def json_schema(cls) -> Document:
        """Return the JSON schema of `to_dict`."""
        return schema_of_plans()

    def explain(self, partition: str) -> str:
        """Return in one or two sentences the moves of a partition and their reasons, or why there are none.

        Raises
        ------
        UnknownNameError
            The engine did not have the partition when it made the plan, or the plan is from JSON, without `outcomes`.
        """
        sentences = [f"{move}: {move.reason}." for move in self.moves if move.partition == partition]
        refusals = (*self.unplaced, *self.undrained)
        sentences += [f"{refusal}." for refusal in refusals if refusal.partition == partition]
        if not sentences:
            sentences = why_it_stays(self._outcome_for(partition), partition)
        if any(partition in outcome.unreported for outcome in self.outcomes):
            sentences.append(f"{UNREPORTED.format(partition)}.")
        return " ".join(sentence[0].upper() + sentence[1:] for sentence in sentences)

    def _outcome_for(self, partition: str) -> DomainOutcome:
        """Return the outcome for the service domain of a partition; raise `UnknownNameError` if there is none."""
        for outcome in self.outcomes:
            if partition in outcome.partitions:
                return outcome
        names = [name for outcome in self.outcomes for name in outcome.partitions]
        context = "plan" if self.outcomes else "plan without outcomes, such as one from JSON"
        raise UnknownNameError("partition", partition, names, context=context)


def merged(plans: Sequence[Plan]) -> Plan:
    """Return the plans of several service domains as one; the energies are added by term."""
    if len(plans) == 1:
        return plans[0]
    zero = Energy(0.0, 0.0, 0.0, 0.0, 0.0)
    return Plan(
        moves=PlanMoves.joined(plan.moves for plan in plans),
        energy_before=sum((plan.energy_before for plan in plans), zero),
        energy_after=sum((plan.energy_after for plan in plans), zero),
        unplaced=tuple(unplaced for plan in plans for unplaced in plan.unplaced),
        undrained=tuple(undrained for plan in plans for undrained in plan.undrained),
        end_reason="; ".join(dict.fromkeys(plan.end_reason for plan in plans)) or "nothing to do",
        phases=tuple(dict.fromkeys(phase for plan in plans for phase in plan.phases)),
        proposals=sum((plan.proposals for plan in plans), Proposals()),
        bound_by=tuple(dict.fromkeys(rule for plan in plans for rule in plan.bound_by)),
        outcomes=tuple(outcome for plan in plans for outcome in plan.outcomes),
        reproducible=all(plan.reproducible for plan in plans),
        temperature=max((plan.temperature for plan in plans if plan.temperature is not None), default=None),
    )


COUNTS = ("scored", "reached_monte_carlo", "accepted")
"""Numbers of proposals of a plan besides all."""
DETAILS = ("node", "metric", "numbers", "term", "other")
"""Fields of a reason besides its phase, its rule and the broken constraint."""


def of_move(move: Move) -> Document:
    """Return the document of a move, with its reason in words and in numbers."""
    reason = move.reason
    details = {name: plain(getattr(reason, name)) for name in DETAILS}
    return {
        "kind": move.kind.value,
        "partition": move.partition,
        "role": move.role.name.lower(),
        "source": move.source,
        "target": move.target,
        "phase": reason.phase.value,
        "rule": reason.rule,
        "reason": str(reason),
        "details": {**details, "breach": None if reason.breach is None else reason.breach.to_dict()},
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


@attrs.frozen
class DescribedBreach(Breach):
    """A broken constraint that a document describes."""

    rule: str
    node: str | None
    metric: str | None
    partition: str | None
    domain: str | None
    numbers: Mapping[str, float]
    text: str
    """The constraint in words."""

    def __str__(self) -> str:
        return self.text


def reason_of(move: Mapping[str, Any]) -> Reason:
    """Return the reason in the document of a move."""
    details = dict(move["details"])
    breach = details.pop("breach")
    return Reason(
        Phase(move["phase"]), move["rule"], breach=None if breach is None else DescribedBreach(**breach), **details
    )


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
    """Return the plan of a document, without the outcomes for service domains."""
    return Plan(
        moves=moves_of(document),
        energy_before=Energy(**document["energy_before"]),
        energy_after=Energy(**document["energy_after"]),
        unplaced=tuple(Unplaced(**_fields_of(replica)) for replica in document["unplaced"]),
        undrained=tuple(Undrained(**_fields_of(replica), node=replica["node"]) for replica in document["undrained"]),
        end_reason=document["end_reason"],
        phases=tuple(map(Phase, document["phases"])),
        proposals=Proposals(document["proposals"], *(document[name] for name in COUNTS)),
        bound_by=tuple(document["bound_by"]),
        actions=document["actions"],
        reproducible=document["reproducible"],
    )


def _fields_of(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an `Unplaced` that the document of a replica that stays has."""
    return {
        "partition": document["partition"],
        "role": Role[document["role"].upper()],
        "nodes": document["nodes"],
        "diagnosis": tuple(Refused(rule, nodes) for rule, nodes in document["ruled_out"].items()),
        "words": document["reason"],
    }


def schema_of_plans() -> Document:
    """Return the JSON schema of the documents of plans."""
    word, name, numbers = schema_of(str), schema_of(str | None), schema_of(Mapping[str, float])
    breach = object_schema({field: schema_of(hint) for field, hint in BREACH_FIELDS.items()})
    details = {**dict.fromkeys(DETAILS, name), "numbers": numbers, "breach": {"anyOf": [breach, {"type": "null"}]}}
    move = {
        "kind": schema_of(MoveKind),
        "partition": word,
        "role": schema_of(Role),
        "source": name,
        "target": name,
        "phase": schema_of(Phase),
        "rule": word,
        "reason": word,
        "details": object_schema(details),
        "cost": schema_of(float),
        "index": schema_of(int),
    }
    staying = {
        "partition": word,
        "role": schema_of(Role),
        "node": name,
        "reason": word,
        "nodes": schema_of(int),
        "ruled_out": schema_of(Mapping[str, int]),
    }
    replicas = {"type": "array", "items": object_schema(staying)}
    properties = {
        "moves": {"type": "array", "items": object_schema(move)},
        "energy_before": schema_of(Energy),
        "energy_after": schema_of(Energy),
        "unplaced": replicas,
        "undrained": replicas,
        "phases": schema_of(tuple[Phase, ...]),
        "end_reason": word,
        **dict.fromkeys(("proposals", *COUNTS), schema_of(int)),
        "actions": schema_of(Mapping[str, str]),
        "bound_by": schema_of(tuple[str, ...]),
        "reproducible": schema_of(bool),
    }
    return {"$schema": SCHEMA_VERSION, "title": "Plan", **object_schema(properties)}


BREACH_FIELDS = {
    **dict.fromkeys(("rule", "text"), str),
    **dict.fromkeys(("node", "metric", "partition", "domain"), str | None),
    "numbers": Mapping[str, float],
}
"""Type of each field of the document of a violation."""
