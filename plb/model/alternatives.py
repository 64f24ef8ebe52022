"""Alternative nodes for a replica, with the rules that exclude others, and the scores of all nodes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, overload

import attrs
import numpy as np

from plb.array_types import Bool, Float, Int
from plb.model.expressions import UnmetClause
from plb.model.outcome import Immovable, RuledOut, diagnosis_in_words
from plb.model.plan import Energy
from plb.model.role import Role
from plb.model.rules import NO_REFUSAL, Rule
from plb.phrasing import amount, counted, listed, rule_in_words
from plb.validation import check_known


@attrs.frozen
class Place:
    """A node with the replica on it."""

    node: str
    """Name of the node."""
    energy: Energy
    """Energy of the cluster with the replica on the node and all others on theirs, including the cost of the move."""
    violation_probability: float
    """Probability of a violation of the node by the estimator, as the energy counts it."""


@attrs.frozen(eq=False, repr=False)
class PlaceColumns(Sequence[Place]):
    """A sequence of n places as columns, equal to a tuple of the same places."""

    nodes: Sequence[str]
    """Names of the nodes."""
    energies: Sequence[Sequence[float]]
    """(n, 1 + terms) energies, each followed by its terms in the order of `terms`."""
    terms: Sequence[str]
    """Names of the terms, as in `Energy`."""
    extension_terms: Sequence[Mapping[str, float]]
    """(n,) as in `Energy`."""
    probabilities: Sequence[float]
    """(n,) `Place.violation_probability`."""

    def __len__(self) -> int:
        return len(self.nodes)

    @overload
    def __getitem__(self, index: int) -> Place: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Place, ...]: ...
    def __getitem__(self, index: int | slice) -> Place | tuple[Place, ...]:
        """Return the place at a position, or the places of a slice."""
        if isinstance(index, slice):
            return tuple(self[position] for position in range(*index.indices(len(self))))
        total, *terms = self.energies[index]
        by_name = dict(zip(self.terms, terms, strict=True))
        energy = Energy(total, extension_terms=self.extension_terms[index], **by_name)
        return Place(self.nodes[index], energy, self.probabilities[index])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))


@attrs.frozen
class ClosedNode:
    """A node that a rule excludes."""

    node: str
    """Name of the node."""
    obstacles: tuple[RuledOut, ...]
    """All rules that exclude it, in the order of the checks, each on this node alone. A node that is out of service or
    has another replica of the partition has that obstacle alone. An extension constraint is included if it is the only
    obstacle.
    """
    unmet: tuple[UnmetClause, ...] = ()
    """The clauses of the placement constraint that the node does not satisfy."""

    @property
    def rules(self) -> tuple[str, ...]:
        """The rules that exclude it."""
        return tuple(obstacle.rule for obstacle in self.obstacles)

    @property
    def distance(self) -> float:
        """Distance from a feasible node: for a shortage, the missing share of the need; 1 for each other rule."""
        return sum([obstacle.distance for obstacle in self.obstacles])

    @property
    def changes(self) -> tuple[str, ...]:
        """The changes after which the node could take the replica, in words."""
        return tuple(change for obstacle in self.obstacles for change in obstacle.changes(self.node, self.unmet))


@attrs.frozen
class Alternatives:
    """The alternatives of a replica, with all other replicas on their nodes.

    Every node is evaluated as if the replica were removed and placed again.
    """

    partition: str
    """Name of the partition."""
    role: Role
    """Role of the replica."""
    index: int
    """Index of the replica, as in `PlacedReplica`."""
    standing: Place | None
    """Its node; None if it is not placed."""
    places: Sequence[Place]
    """The nodes that no rule excludes, by energy, lowest first; equal ones in the order of the nodes. The present node
    is among them unless a rule now excludes it.
    """
    diagnosis: tuple[RuledOut, ...] = ()
    """Nodes by the rule that excludes them, in the order of the checks; each node counts at the first rule it fails."""
    closed: tuple[ClosedNode, ...] = ()
    """The nodes that a rule excludes, by `ClosedNode.distance`; equal ones in the order of the nodes."""
    given_up: tuple[str, ...] = ()
    """Soft rules that are not checked: placement relaxes them for missing replicas, and a placed replica breaks them.
    """
    immovable: Immovable | None = None
    """Why no plan may move it now; None if a plan may move it, or if it is not placed."""

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return len(self.places) + len(self.closed)

    @property
    def others(self) -> tuple[Place, ...]:
        """The places without its present node."""
        present_node = None if self.standing is None else self.standing.node
        return tuple(place for place in self.places if place.node != present_node)

    @property
    def rank(self) -> int | None:
        """Rank of its present node among `places`, from 1; None if it is not placed or its node is now excluded."""
        nodes = self.places.nodes if isinstance(self.places, PlaceColumns) else [place.node for place in self.places]
        if self.standing is None or self.standing.node not in nodes:
            return None
        return 1 + nodes.index(self.standing.node)

    @property
    def nearest(self) -> tuple[ClosedNode, ...]:
        """The nearest closed node of each set of rules."""
        nearest: dict[tuple[str, ...], ClosedNode] = {}
        for node in self.closed:
            nearest.setdefault(node.rules, node)
        return tuple(nearest.values())

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
        """Return in words where the replica is, and how many nodes would take it."""
        replica = f"{self.role.name.lower()} of {self.partition}"
        if self.standing is None:
            return f"{replica} is not placed and fits on {len(self.places) or 'none'} of {self.nodes} nodes"
        text = f"{replica} is on {self.standing.node}"
        others = len(self.places) - (self.rank is not None)
        if not others:
            return f"{text} and fits on no other of {self.nodes} nodes"
        best = next(place for place in self.places if place.node != self.standing.node)
        change = best.energy.total - self.standing.energy.total
        effect = f"raise the energy by {amount(change)}" if change >= 0 else f"lower the energy by {amount(-change)}"
        return f"{text}; {counted(others, 'other node')} would take it, the best, {best.node}, would {effect}"


@attrs.frozen(eq=False)
class NodeScores:
    """The energy with the next missing replica of a partition on each node, with all other replicas in their places.

    N nodes, in the order in which they were added.
    """

    partition: str
    """Name of the partition."""
    role: Role
    """Role of the replica."""
    index: int
    """Index of the replica, as in `PlacedReplica`."""
    nodes: tuple[str, ...]
    """(N,) names of the nodes."""
    energy: Float
    """(N,) energy of the cluster with the replica on the node, lower is better; infinite for a node that is ruled out.
    """
    violation_probability: Float
    """(N,) probability of a violation of the node with the replica on it; 0 without weights of risk."""
    rule: Int
    """(N,) the first rule that rules the node out, as in `plb.model.rules.Rule`; -1: none."""
    soft: Bool
    """(N,) whether placement would relax that rule, and those after it, if no other node were left."""
    by_extensions: Mapping[int, str]
    """Indices of nodes that only an extension constraint rules out, each with the name of the constraint."""

    @property
    def fits(self) -> Bool:
        """(N,) whether nothing rules the node out."""
        return np.isfinite(self.energy)

    @property
    def best(self) -> str | None:
        """Name of the node of lowest energy, the first of equal ones; None if all are ruled out."""
        return self.nodes[int(np.argmin(self.energy))] if self.fits.any() else None

    def reason(self, node: str) -> str | None:
        """Return the name of the rule or extension constraint that rules a node out; None if it fits.

        Raises
        ------
        UnknownNameError
            If the node is not known.
        """
        check_known("node", node, self.nodes)
        return self._reason(self.nodes.index(node))

    def _reason(self, index: int) -> str | None:
        """Return `reason` of the node with an index."""
        rule = int(self.rule[index])
        return self.by_extensions.get(index) if rule == NO_REFUSAL else Rule(rule).name.lower()

    def as_json(self) -> dict[str, Any]:
        """Return plain JSON values; the energy of a node that is ruled out is null."""
        names = np.array([*(rule.name.lower() for rule in Rule), None], object)  # NO_REFUSAL is the last one
        ruled_out_by = names[self.rule]
        ruled_out_by[[*self.by_extensions]] = [*self.by_extensions.values()]
        return {
            "partition": self.partition,
            "role": self.role.name.lower(),
            "index": self.index,
            "nodes": list(self.nodes),
            "energy": [energy if energy < math.inf else None for energy in self.energy.tolist()],
            "violation_probability": self.violation_probability.tolist(),
            "ruled_out_by": ruled_out_by.tolist(),
            "soft": self.soft.tolist(),
        }
