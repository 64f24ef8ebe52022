"""Constraints of users, registered for the tests."""

from __future__ import annotations

from plb import Role
from plb.array_types import NOWHERE


class OffLastNode:
    """No replica may be on the node named n3."""

    name = "off_last_node"

    def refuses(self, configuration, proposal):
        """Refuse a proposal that brings a replica to n3."""
        return any(self._is_last(configuration, one.target) for one in configuration.relocations(proposal))

    def broken(self, configuration):
        """Return the replicas on n3."""
        return [row for row in configuration.rows if self._is_last(configuration, configuration.node_of(row))]

    def _is_last(self, configuration, node):
        return node != NOWHERE and configuration.node(node).name == "n3"


class OnePrimaryANode:
    """A node has at most one primary."""

    name = "one_primary_a_node"

    def refuses(self, configuration, proposal):
        """Refuse to bring a primary to a node with another primary, unless that one leaves."""
        relocations = configuration.relocations(proposal)
        leaving = {one.row for one in relocations}
        return any(
            configuration.role_of(one.row) is Role.PRIMARY
            and any(row not in leaving for row in self._primaries_on(configuration, one.target))
            for one in relocations
        )

    def broken(self, configuration):
        """Return the primaries that share a node."""
        groups = [self._primaries_on(configuration, node) for node in range(configuration.nodes)]
        return [row for group in groups if len(group) > 1 for row in group]

    def _primaries_on(self, configuration, node):
        rows = [] if node == NOWHERE else configuration.rows_on(node)
        return [row for row in rows if configuration.role_of(row) is Role.PRIMARY]


class Anchored:
    """A partition with a replica on the node named n1 keeps one there."""

    name = "anchored"

    def refuses(self, configuration, proposal):
        """Refuse to take the replica off n1, unless another replica comes or it is the only one."""
        relocations = configuration.relocations(proposal)
        comes = {
            configuration.partition_of(one.row) for one in relocations if self._is_there(configuration, one.target)
        }
        return any(
            self._is_there(configuration, one.source)
            and configuration.partition_of(one.row) not in comes
            and (len(self._nodes_of(configuration, one.row)) > 1 or one.target != NOWHERE)
            for one in relocations
        )

    def broken(self, configuration):
        """Return the replicas of partitions that have none on n1."""
        return [
            row
            for row in configuration.rows
            if (nodes := self._nodes_of(configuration, row))
            and configuration.node_of(row) != NOWHERE
            and not any(self._is_there(configuration, node) for node in nodes)
        ]

    def _is_there(self, configuration, node):
        return node != NOWHERE and configuration.node(node).name == "n1"

    def _nodes_of(self, configuration, row):
        name = configuration.partition_of(row)
        nodes = [configuration.node_of(one) for one in configuration.rows if configuration.partition_of(one) == name]
        return [node for node in nodes if node != NOWHERE]


CONSTRAINTS = (OffLastNode(), OnePrimaryANode(), Anchored())
