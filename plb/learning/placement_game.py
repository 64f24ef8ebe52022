"""The game that is learned: placing jobs on machines, as the learner sees it ([4], "State Representation").

M machines, D resources, P past and H coming steps, Q visible jobs of the queue, A steps of arrivals.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import attrs

from plb.array_types import Float32
from plb.learning.settings import count_field

SHAPE = "observation shape"
WAIT = 0
"""The action that places nothing now ([4], "Action Space"); action m = 1 … M places the first job on machine m - 1."""


@attrs.frozen
class ObservationShape:
    """The size of an observation: whole numbers of at least 1 (0 for the past), kept as plain `int`.

    Parameters
    ----------
    machines
        M, number of machines.
    resources
        D, number of resources.
    past, horizon
        P and H, steps of the past, which may be 0, and of the known future.
    visible
        Q, jobs of the queue that are shown with their usage.
    arrivals
        A, steps of the arrival pattern.
    """

    machines: int = count_field(SHAPE, low=1)
    resources: int = count_field(SHAPE, low=1)
    past: int = count_field(SHAPE)
    horizon: int = count_field(SHAPE, low=1)
    visible: int = count_field(SHAPE, low=1)
    arrivals: int = count_field(SHAPE, low=1)


class Observation(NamedTuple):
    """What there is to see before a decision, all float32; usage is a share of a machine.

    Parameters
    ----------
    machines
        Usage of each machine, (M, D, P + H): the P past steps, oldest first, then the coming H, of the jobs placed so
        far; the first of these is the present step.
    occupied
        Tenths of the number of jobs on each machine, (M,).
    queue
        Usage of the first Q waiting jobs if they were placed now, (Q, D, H), the next to be placed first; zeros where
        there are fewer.
    waited
        How long each of these has waited, (Q,), as a share of H.
    backlog
        Number of waiting jobs beyond these, (1,), by the number of machines.
    arrivals
        Number of jobs that arrived in each of the last A steps, oldest first, (A,), by the number of machines.
    """

    machines: Float32
    occupied: Float32
    queue: Float32
    waited: Float32
    backlog: Float32
    arrivals: Float32


def array_shapes(shape: ObservationShape, machines: int) -> tuple[tuple[int, ...], ...]:
    """Return the shape of each array of an observation with a number of machines, in the order of `Observation`."""
    return (
        (machines, shape.resources, shape.past + shape.horizon),
        (machines,),
        (shape.visible, shape.resources, shape.horizon),
        (shape.visible,),
        (1,),
        (shape.arrivals,),
    )


class PlacementGame(Protocol):
    """A game for training. Equal seeds give equal games, independent of earlier games.

    A game has at least one decision: it is not over at its start, and `step` is called at least once.
    """

    @property
    def shape(self) -> ObservationShape:
        """How large its observations are."""
        ...

    @property
    def time(self) -> int:
        """The present time step; several decisions may fall into one."""
        ...

    def reset(self, seed: int) -> Observation:
        """Begin the game of a seed, and return what there is to see before the first decision."""
        ...

    def step(self, action: int) -> tuple[Observation, float, bool]:
        """Decide; return the next observation, the reward until then, and whether the game is over.

        The results belong to the caller: later steps do not change them.
        """
        ...
