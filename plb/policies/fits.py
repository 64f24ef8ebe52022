"""Best fit and worst fit: the node with the largest or smallest W after placement ([1] section 8.3)."""

from __future__ import annotations

from plb.array_types import Float, Int
from plb.extensions.configuration import Configuration
from plb.policies.weighting import Weighting, shares_with, weighted


class BestFit:
    """Chooses the node with the largest W after placement; of equal ones the lowest index.

    Parameters
    ----------
    weighting
        Which W; it is part of the name.
    """

    def __init__(self, weighting: Weighting) -> None:
        self.name, self._weighting = f"best_fit_{weighting.value}", weighting

    def choose(self, configuration: Configuration, row: int, nodes: Int) -> int:
        """Return the fullest node."""
        return fullest(self._weighting, configuration, row, nodes)


class WorstFit:
    """Takes the node with the smallest W after placement; ties go to the lowest index.

    Parameters
    ----------
    weighting
        Which W; it is part of the name.
    """

    def __init__(self, weighting: Weighting) -> None:
        self.name, self._weighting = f"worst_fit_{weighting.value}", weighting

    def choose(self, configuration: Configuration, row: int, nodes: Int) -> int:
        """Return the emptiest node."""
        return emptiest(self._weighting, configuration, row, nodes)


def fullest(weighting: Weighting, configuration: Configuration, row: int, nodes: Int) -> int:
    """Return the first of `nodes` with the largest W after placement."""
    return int(nodes[_with_row(weighting, configuration, row, nodes).argmax()])


def emptiest(weighting: Weighting, configuration: Configuration, row: int, nodes: Int) -> int:
    """Return the first of `nodes` with the smallest W after placement."""
    return int(nodes[_with_row(weighting, configuration, row, nodes).argmin()])


def _with_row(weighting: Weighting, configuration: Configuration, row: int, nodes: Int) -> Float:
    return weighted(weighting, configuration, shares_with(configuration, row, nodes))
