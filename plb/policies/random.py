"""Random: any feasible node, with equal probability."""

from __future__ import annotations

import numpy as np

from plb.array_types import Int
from plb.extensions.configuration import Configuration


class Random:
    """Samples the node with the generator of the search."""

    name = "random"

    def begin(self, configuration: Configuration, rng: np.random.Generator) -> None:
        """Keep the generator."""
        self._rng = rng

    def choose(self, configuration: Configuration, row: int, nodes: Int) -> int:
        """Return a node, sampled uniformly."""
        return int(self._rng.choice(nodes))
