"""Where else a replica could stand, and what keeps it off every other node: the data, and one rendering in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs

from plb.model.expressions import UnmetClause
from plb.model.outcome import Immovable
from plb.model.plan import Energy
from plb.model.role import Role
from plb.model.unplaced import (
    Crowded,
    Full,
    Infeasible,
    NotPreferred,
    OutOfService,
    RuledOut,
    Taken,
    WithoutParent,
    diagnosis_in_words,
)
from plb.phrasing import amount, counted, listed, rule_in_words


@attrs.frozen
class Place:
    """A node with the replica on it.

    Parameters
    ----------
    energy
        That of the cluster if the replica stood there and all others where they are. What the replica's move costs
        is in it.
    violation_probability
        How likely the node is then to run into a violation, as `violation_probabilities` has it.
    """

    node: str
    energy: Energy
    violation_probability: float


@attrs.frozen
class ClosedNode:
    """A node that some rule rules out.

    Parameters
    ----------
    obstacles
        All rules that rule it out, in the order of looking, each of this node alone. Where the node is out of service
        or has another replica of the partition, that alone is told; a constraint of the user's own is told where it
        is the only obstacle.
    unmet
        The clauses of the placement constraint that do not hold there.
    """

    node: str
    obstacles: tuple[RuledOut, ...]
    unmet: tuple[UnmetClause, ...] = ()

    @property
    def rules(self) -> tuple[str, ...]:
        """The rules that rule it out."""
        return tuple(one.rule for one in self.obstacles)

    @property
    def distance(self) -> float:
        """How far it is from taking the replica: for a shortage the share of the need that is missing, else 1 each."""
        return sum(_distance(one) for one in self.obstacles)

    @property
    def changes(self) -> tuple[str, ...]:
        """What would have to change for it to take the replica, in words: all of it."""
        return tuple(change for one in self.obstacles for change in self._changes(one))

    def _changes(self, obstacle: RuledOut) -> Iterator[str]:
        if isinstance(obstacle, Full):
            for one in obstacle.shortages:
                has = f"it needs {amount(one.needed)} and {amount(one.free)} is free"
                yield f"{amount(one.missing)} more {one.metric} must be free on {self.node} ({has})"
        elif isinstance(obstacle, Infeasible):
            if obstacle.blocked:
                yield f"{self.node} must no longer be blocked for the service"
            yield from map(str, self.unmet)
        elif isinstance(obstacle, Crowded):
            for domain in obstacle.domains:
                yield f"a replica of the partition must leave {domain.domain} ({domain})"
        elif isinstance(obstacle, OutOfService):
            yield f"{self.node} must be back in service (it is {', '.join(obstacle.states)})"
        elif isinstance(obstacle, Taken):
            yield f"the other replica of the partition must leave {self.node}"
        elif isinstance(obstacle, WithoutParent):
            yield f"{obstacle.parent} must have a replica on {self.node} ({obstacle})"
        elif isinstance(obstacle, NotPreferred):
            yield f"{self.node} must be a preferred location ({obstacle})"
        else:
            yield f"{rule_in_words(obstacle.rule)} must allow it ({obstacle})"


@attrs.frozen
class Alternatives:
    """Where one replica could stand instead, all others staying where they are.

    Every node is judged as if the replica were taken off its own and placed anew.

    Parameters
    ----------
    index
        Which replica it is, as in `PlacedReplica`.
    standing
        Where it stands; None while it waits for a place.
    places
        The nodes that no rule rules out, by energy, lowest first; equal ones in the order of the nodes. Its own is one
        of them, unless a rule forbids by now what it allowed before.
    diagnosis
        What each rule rules out, in the order of looking: every node counts once, at the first rule it fails.
    closed
        The nodes that some rule rules out, by `ClosedNode.distance`; equal ones in the order of the nodes.
    given_up
        Soft rules that are not asked: placement gives them up for what waits, and a replica that stands breaks them.
    immovable
        Why no plan may move it now; None: one may, or it waits for a place.
    """

    partition: str
    role: Role
    index: int
    standing: Place | None
    places: tuple[Place, ...]
    diagnosis: tuple[RuledOut, ...] = ()
    closed: tuple[ClosedNode, ...] = ()
    given_up: tuple[str, ...] = ()
    immovable: Immovable | None = None

    @property
    def nodes(self) -> int:
        """How many nodes there are."""
        return len(self.places) + len(self.closed)

    @property
    def others(self) -> tuple[Place, ...]:
        """The places but its own."""
        standing = None if self.standing is None else self.standing.node
        return tuple(one for one in self.places if one.node != standing)

    @property
    def rank(self) -> int | None:
        """The place of its own node among `places`, from 1; None if it waits or its node would not take it again."""
        standing = None if self.standing is None else self.standing.node
        return next((rank for rank, one in enumerate(self.places, 1) if one.node == standing), None)

    @property
    def nearest(self) -> tuple[ClosedNode, ...]:
        """Of the closed nodes that need the same rules to change, the nearest."""
        found: dict[tuple[str, ...], ClosedNode] = {}
        for one in self.closed:
            found.setdefault(one.rules, one)
        return tuple(found.values())

    def __str__(self) -> str:
        parts = [self._where()]
        if self.diagnosis:
            parts.append(f"ruled out {diagnosis_in_words(self.diagnosis)}")
        if self.given_up:
            parts.append(f"not asked: {listed([rule_in_words(rule) for rule in self.given_up])}")
        if self.immovable is not None:
            parts.append(f"it may not move: {self.immovable.value}")
        return "; ".join(parts)

    def _where(self) -> str:
        who = f"{self.role.name.lower()} of {self.partition}"
        if self.standing is None:
            return f"{who} waits for a place and fits on {len(self.places) or 'none'} of {self.nodes} nodes"
        text = f"{who} stands on {self.standing.node}"
        if not self.others:
            return f"{text} and fits on no other of {self.nodes} nodes"
        best = self.others[0]
        change = best.energy.total - self.standing.energy.total
        way = f"raise the energy by {amount(change)}" if change >= 0 else f"lower the energy by {amount(-change)}"
        return f"{text}; {counted(len(self.others), 'other node')} would take it, the best, {best.node}, would {way}"


def by_distance(closed: Sequence[ClosedNode]) -> tuple[ClosedNode, ...]:
    """Return closed nodes, the nearest first; equal ones as they come."""
    return tuple(sorted(closed, key=lambda one: one.distance))


def _distance(obstacle: RuledOut) -> float:
    if not isinstance(obstacle, Full):
        return 1.0
    return max((one.missing / one.needed for one in obstacle.shortages), default=1.0)
