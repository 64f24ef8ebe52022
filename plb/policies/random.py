"""Random: any node that takes the replica, each as likely as the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from plb.array_types import Int

if TYPE_CHECKING:
    from plb.extensions.configuration import Configuration


class Random:
    """Draws the node from the generator of the search."""

    name = "random"

    def begin(self, configuration: Configuration, rng: np.random.Generator) -> None:
        """Keep the generator."""
        self._rng = rng

    def choose(self, configuration: Configuration, row: int, nodes: Int) -> int:
        """Return a node, drawn uniformly."""
        return int(self._rng.choice(nodes))
