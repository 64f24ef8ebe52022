"""Alternative nodes for a replica, and the rules that exclude the others: the data, and their text."""

from __future__ import annotations

import attrs

from plb.model.expressions import UnmetClause
from plb.model.outcome import Immovable
from plb.model.plan import Energy
from plb.model.role import Role
from plb.model.unplaced import RuledOut, diagnosis_in_words
from plb.phrasing import amount, counted, listed, rule_in_words


@attrs.frozen
class Place:
    """A node with the replica on it.

    Parameters
    ----------
    energy
        Energy of the cluster with the replica on the node and all others on theirs, including the cost of the move.
    violation_probability
        Probability of a violation of the node by the estimator, as the energy counts it.
    """

    node: str
    energy: Energy
    violation_probability: float


@attrs.frozen
class ClosedNode:
    """A node that a rule excludes.

    Parameters
    ----------
    obstacles
        All rules that exclude it, in the order of the checks, each on this node alone. A node that is out of service or
        has another replica of the partition has that obstacle alone. An extension constraint is included if it is the
        only obstacle.
    unmet
        The clauses of the placement constraint that the node does not satisfy.
    """

    node: str
    obstacles: tuple[RuledOut, ...]
    unmet: tuple[UnmetClause, ...] = ()

    @property
    def rules(self) -> tuple[str, ...]:
        """The rules that exclude it."""
        return tuple(one.rule for one in self.obstacles)

    @property
    def distance(self) -> float:
        """Distance from a feasible node: for a shortage, the missing share of the need; 1 for each other rule."""
        return sum(one.distance for one in self.obstacles)

    @property
    def changes(self) -> tuple[str, ...]:
        """The changes after which the node could take the replica, in words."""
        return tuple(change for one in self.obstacles for change in one.changes(self.node, self.unmet))


@attrs.frozen
class Alternatives:
    """The alternatives of a replica, with all other replicas on their nodes.

    Every node is evaluated as if the replica were removed and placed again.

    Parameters
    ----------
    index
        Index of the replica, as in `PlacedReplica`.
    standing
        Its node; None if it is not placed.
    places
        The nodes that no rule excludes, by energy, lowest first; equal ones in the order of the nodes. The present node
        is among them unless a rule now excludes it.
    diagnosis
        Nodes by the rule that excludes them, in the order of the checks; each node counts at the first rule it fails.
    closed
        The nodes that a rule excludes, by `ClosedNode.distance`; equal ones in the order of the nodes.
    given_up
        Soft rules that are not checked: placement relaxes them for missing replicas, and a placed replica breaks them.
    immovable
        Why no plan may move it now; None if a plan may move it, or if it is not placed.
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
        """Number of nodes."""
        return len(self.places) + len(self.closed)

    @property
    def others(self) -> tuple[Place, ...]:
        """The places without its present node."""
        standing = None if self.standing is None else self.standing.node
        return tuple(one for one in self.places if one.node != standing)

    @property
    def rank(self) -> int | None:
        """Rank of its present node among `places`, from 1; None if it is not placed or its node is now excluded."""
        standing = None if self.standing is None else self.standing.node
        return next((rank for rank, one in enumerate(self.places, 1) if one.node == standing), None)

    @property
    def nearest(self) -> tuple[ClosedNode, ...]:
        """The nearest closed node of each set of rules."""
        found: dict[tuple[str, ...], ClosedNode] = {}
        for one in self.closed:
            found.setdefault(one.rules, one)
        return tuple(found.values())

    def __str__(self) -> str:
        parts = [self._where()]
        if self.diagnosis:
            parts.append(f"ruled out {diagnosis_in_words(self.diagnosis)}")
        if self.given_up:
            parts.append(f"not checked: {listed([rule_in_words(rule) for rule in self.given_up])}")
        if self.immovable is not None:
            parts.append(f"it may not move: {self.immovable.value}")
        return "; ".join(parts)

    def _where(self) -> str:
        who = f"{self.role.name.lower()} of {self.partition}"
        if self.standing is None:
            return f"{who} is not placed and fits on {len(self.places) or 'none'} of {self.nodes} nodes"
        text = f"{who} is on {self.standing.node}"
        if not self.others:
            return f"{text} and fits on no other of {self.nodes} nodes"
        best = self.others[0]
        change = best.energy.total - self.standing.energy.total
        way = f"raise the energy by {amount(change)}" if change >= 0 else f"lower the energy by {amount(-change)}"
        return f"{text}; {counted(len(self.others), 'other node')} would take it, the best, {best.node}, would {way}"
