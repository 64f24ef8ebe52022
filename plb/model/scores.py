"""The scores of all nodes for one replica, as arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np

from plb.array_types import Bool, Float, Int
from plb.errors import UnknownNameError
from plb.model.role import Role
from plb.model.rules import NO_REFUSAL, Rule


@attrs.frozen(eq=False)
class NodeScores:
    """What every node is worth for the next missing replica of a partition, with all other replicas in their places.

    N nodes, in the order in which they were added.

    Parameters
    ----------
    partition
        Name of the partition.
    role
        Role of the replica.
    index
        Index of the replica, as in `PlacedReplica`.
    nodes
        (N,) names of the nodes.
    energy
        (N,) energy of the cluster with the replica on the node, lower is better; infinite for a node that is ruled out.
    violation_probability
        (N,) probability of a violation of the node with the replica on it; 0 without weights of risk.
    rule
        (N,) the first rule that rules the node out, as in `plb.model.rules.Rule`; -1: none.
    soft
        (N,) whether placement would relax that rule, and those after it, if no other node were left.
    by_extensions
        Indices of nodes that only an extension constraint rules out, each with the name of the constraint.
    """

    partition: str
    role: Role
    index: int
    nodes: tuple[str, ...]
    energy: Float
    violation_probability: Float
    rule: Int
    soft: Bool
    by_extensions: Mapping[int, str]

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
        if node not in self.nodes:
            raise UnknownNameError("node", node, self.nodes)
        index = self.nodes.index(node)
        rule = int(self.rule[index])
        return self.by_extensions.get(index) if rule == NO_REFUSAL else Rule(rule).name.lower()

    def as_json(self) -> dict[str, Any]:
        """Return plain JSON values; the energy of a node that is ruled out is null."""
        return {
            "partition": self.partition,
            "role": self.role.name.lower(),
            "index": self.index,
            "nodes": list(self.nodes),
            "energy": [float(one) if np.isfinite(one) else None for one in self.energy],
            "violation_probability": self.violation_probability.tolist(),
            "ruled_out_by": [self.reason(node) for node in self.nodes],
            "soft": self.soft.tolist(),
        }
