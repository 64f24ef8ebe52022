"""The dimensions of an episode and of its observations, and checks that several sections share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from cluster.scenario.sections import Section, count
from plb.errors import InvalidValueError, PlbError
from plb.learning.placement_game import ObservationShape

MOST_CELLS = 2**28
"""Largest number of values in one array of an episode, 2 GiB: machines by resources by steps, or jobs likewise."""
RESOURCES = ("cpu", "memory")
"""Resources of machines and jobs by default."""


@attrs.frozen(kw_only=True)
class Dimensions(Section):
    """The dimensions of an episode and of its observations.

    Parameters
    ----------
    machines
        M, number of machines. They are identical, with capacity 1 of each resource.
    resources
        Names of the D resources.
    horizon
        H, observed steps of the future. No job is longer.
    past
        P, observed steps of the past.
    visible
        Q, jobs of the queue that are observed with their usage.
    arrivals
        A, steps of the arrival pattern.
    """

    machines: int = count(10, low=1, high=10_000)
    resources: tuple[str, ...] = RESOURCES
    horizon: int = count(20, low=1, high=10_000)
    past: int = count(5, high=10_000)
    visible: int = count(5, low=1, high=10_000)
    arrivals: int = count(10, low=1, high=10_000)

    @classmethod
    def conflicts(cls, values: Mapping[str, Any]) -> Iterator[tuple[str, PlbError]]:
        """Yield the problems of the resources."""
        yield from resource_conflicts("dimensions", values)

    @property
    def shape(self) -> ObservationShape:
        """Dimensions of an observation."""
        return ObservationShape(
            machines=self.machines,
            resources=len(self.resources),
            past=self.past,
            horizon=self.horizon,
            visible=self.visible,
            arrivals=self.arrivals,
        )


def resource_conflicts(item: str, values: Mapping[str, Any]) -> Iterator[tuple[str, PlbError]]:
    """Yield the problems of the names of resources of a section."""
    names = values.get("resources", RESOURCES)
    is_names = isinstance(names, tuple) and all(isinstance(name, str) and name for name in names)
    if not is_names or not names or len(set(names)) < len(names):
        yield "resources", InvalidValueError(item, "resources", names, "a tuple of one or more different names")


def pair_conflicts(item: str, values: Mapping[str, Any], fields: tuple[str, ...]) -> Iterator[tuple[str, PlbError]]:
    """Yield the fields of a section that are not pairs of a low and a high end."""
    for field in fields:
        pair = values.get(field)
        if pair is not None and (not isinstance(pair, tuple) or len(pair) != 2 or pair[0] > pair[1]):
            yield field, InvalidValueError(item, field, pair, "a low and a high end, in this order")
