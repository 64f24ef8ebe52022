"""The state of each node: up, down for one or more causes, or draining. Changes are reported to the engine."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from cluster.simulation.causes import FAULT
from cluster.simulation.simulated_cluster import SimulatedCluster
from plb import Node
from plb.model import DeactivationIntent, DeactivationStatus


class NodeStates:
    """The state of every node.

    Parameters
    ----------
    cluster
        The shared objects of the run.
    nodes
        The nodes, all up.

    Attributes
    ----------
    nodes
        The nodes by name, in the state up.
    why_down
        For each node that is down, all causes that keep it down.
    draining
        Nodes that accept no replicas because they are about to go down.
    """

    def __init__(self, cluster: SimulatedCluster, nodes: Sequence[Node]) -> None:
        self._cluster = cluster
        self.nodes = {node.name: node for node in nodes}
        self.why_down: dict[str, list[str]] = {}
        self.draining: set[str] = set()

    @property
    def down(self) -> frozenset[str]:
        """The nodes that are down."""
        return frozenset(self.why_down)

    def lose(self, name: str, cause: str) -> bool:
        """Add a cause that keeps a node down; return whether it was up before."""
        self._cluster.recorder.node_faults += cause == FAULT
        causes = self.why_down.setdefault(name, [])
        causes.append(cause)
        if len(causes) > 1:
            return False
        self._note_change(name, cause, down=True)
        return True

    def regain(self, name: str, cause: str) -> bool:
        """Remove a cause that keeps a node down; return whether the node is up now."""
        self.why_down[name].remove(cause)
        if self.why_down[name]:
            return False
        del self.why_down[name]
        self._note_change(name, cause, down=False)
        return True

    def begin_drain(self, name: str) -> None:
        """Stop placing replicas on a node that is about to go down."""
        self.draining.add(name)
        self._report_node(name)

    def end_drain(self, name: str) -> None:
        """Allow replicas on a node again."""
        self.draining.discard(name)
        self._report_node(name)

    def _note_change(self, name: str, cause: str, *, down: bool) -> None:
        self._cluster.recorder.node_events.append((self._cluster.now, name, down, cause))
        self._cluster.ledger.set_down(name, down=down)
        self._report_node(name)

    def _report_node(self, name: str) -> None:
        """Report the state of a node to the engine."""
        node = attrs.evolve(self.nodes[name], up=name not in self.why_down)
        if name in self.draining and node.up:
            status = DeactivationStatus.SAFETY_CHECK_COMPLETE  # in earlier states the node still accepts new replicas
            node = attrs.evolve(node, deactivation_intent=DeactivationIntent.RESTART, deactivation_status=status)
        self._cluster.engine.update_node(node, now=self._cluster.now)
