"""First fit: the first node that takes the replica."""

from __future__ import annotations

from plb.array_types import Int
from plb.extensions.configuration import Configuration


class FirstFit:
    """Takes the node that the engine has known for longest."""

    name = "first_fit"

    def choose(self, configuration: Configuration, row: int, nodes: Int) -> int:
        """Return the first node."""
        return int(nodes[0])
