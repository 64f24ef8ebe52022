"""The game that is learned: placing jobs on machines, as the learner sees it ([4], "State Representation").

A game is an environment of Gymnasium whose observations are dictionaries with the fields of `Observation`, whose
actions are `WAIT` and the numbers of the machines from 1, and whose attribute `time` is the present time step; several
decisions may fall into one. Equal seeds give equal games, independent of earlier ones.

M machines, D resources, P past and H coming steps, Q visible jobs of the queue, A steps of arrivals.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import attrs

from plb.array_types import Float32
from plb.learning.settings import count_field

SHAPE = "observation shape"
"""Name of `ObservationShape` in errors."""
WAIT = 0
"""The action that places nothing now ([4], "Action Space"); action m = 1 … M places the first job on machine m - 1."""


class Observation(NamedTuple):
    """What there is to see before a decision, all float32; usage is a share of a machine."""

    machines: Float32
    """Usage of each machine, (M, D, P + H), by the jobs placed so far: the past steps, oldest first, and from the
    present step on those to come."""
    occupied: Float32
    """Tenths of the number of jobs on each machine, (M,)."""
    queue: Float32
    """Usage of the first Q waiting jobs if they were placed now, (Q, D, H), the next to be placed first; zeros where
    there are fewer."""
    waited: Float32
    """How many steps each of the first Q waiting jobs has waited, (Q,), as a share of H."""
    backlog: Float32
    """Number of waiting jobs beyond the first Q, (1,), by the number of machines."""
    arrivals: Float32
    """Number of jobs that arrived in each of the last A steps, oldest first, (A,), by the number of machines."""


@attrs.frozen
class ObservationShape:
    """The size of an observation: whole numbers, kept as plain `int`."""

    machines: int = count_field(SHAPE, low=1)
    resources: int = count_field(SHAPE, low=1)
    past: int = count_field(SHAPE)
    """Number of past steps, P."""
    horizon: int = count_field(SHAPE, low=1)
    """Number of coming steps, H."""
    visible: int = count_field(SHAPE, low=1)
    """Number of jobs of the queue that are shown with their usage, Q."""
    arrivals: int = count_field(SHAPE, low=1)
    """Number of steps whose arrivals are shown, A."""

    @classmethod
    def of(cls, space: Any) -> ObservationShape:
        """Return the size of the observations of a space of Gymnasium."""
        machines, resources, steps = space["machines"].shape
        visible, _, horizon = space["queue"].shape
        return cls(machines, resources, steps - horizon, horizon, visible, *space["arrivals"].shape)

    def arrays(self, machines: int) -> dict[str, tuple[int, ...]]:
        """Return the shape of each array of an observation with a number of machines, by the names in `Observation`."""
        return {
            "machines": (machines, self.resources, self.past + self.horizon),
            "occupied": (machines,),
            "queue": (self.visible, self.resources, self.horizon),
            "waited": (self.visible,),
            "backlog": (1,),
            "arrivals": (self.arrivals,),
        }
