"""Random: any feasible node, with equal probability."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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

    def memory(self) -> Mapping[str, Any]:
        """Return nothing: each search has its own generator."""
        return {}

    def recall(self, memory: Mapping[str, Any]) -> None:
        """Go on from nothing."""
