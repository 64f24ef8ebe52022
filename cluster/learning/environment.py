"""Episodes as a Gymnasium environment, for other learning algorithms."""

from __future__ import annotations

from typing import Any

import numpy as np

from cluster.learning.dimensions import Dimensions
from cluster.learning.game import JobPlacementGame
from cluster.learning.job_sequence import JobSource
from cluster.learning.metrics import figures
from cluster.learning.rewards import Penalties
from cluster.learning.synthetic_jobs import SyntheticJobs
from plb.array_types import Float32
from plb.errors import InvalidValueError, MissingExtraError
from plb.learning.placement_game import Observation, ObservationShape, array_shapes

try:
    import gymnasium
    from gymnasium import spaces
except ImportError:
    raise MissingExtraError("gymnasium") from None

SEEDS = 2**31
"""Upper bound of the seeds of episodes that are sampled if none is given."""


class PlacementEnvironment(gymnasium.Env[dict[str, Any], np.int64]):
    """Placement of jobs on machines: action 0 waits, action m = 1 … M places the head of the queue on machine m - 1.

    Observations have the fields of `plb.learning.placement_game.Observation`. The usage of a machine is not bounded.
    The `info` of the last step has the figures of the episode (`cluster.learning.metrics.FIGURES`); that of other steps
    is empty.

    Parameters
    ----------
    source
        Source of the jobs; None: `SyntheticJobs`. ``reset(seed=7)`` begins its sequence of seed 7, and a reset without
        a seed that of a random seed.
    dimensions, penalties, longest_steps
        See `cluster.learning.episode.Episode`.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 - as in Gymnasium

    def __init__(
        self,
        source: JobSource | None = None,
        dimensions: Dimensions | None = None,
        penalties: Penalties | None = None,
        *,
        longest_steps: int | None = None,
    ) -> None:
        jobs = SyntheticJobs() if source is None else source
        self.game = JobPlacementGame(jobs, dimensions, penalties, longest_steps=longest_steps)
        self.observation_space = observation_space(self.game.shape)
        self.action_space = spaces.Discrete(self.game.shape.machines + 1)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Float32], dict[str, Any]]:
        """Begin another episode; there are no options."""
        super().reset(seed=seed, options=options)
        drawn = int(self.np_random.integers(SEEDS)) if seed is None else seed
        return self.game.reset(drawn)._asdict(), {}

    def step(self, action: np.int64) -> tuple[dict[str, Float32], float, bool, bool, dict[str, Any]]:
        """Decide; return observation, reward, whether the episode ended or was truncated, and the figures."""
        if not self.action_space.contains(action):
            raise InvalidValueError("step", "action", action, f"a whole number from 0 to {self.game.shape.machines}")
        observation, reward, over = self.game.step(int(action))
        episode = self.game.episode
        info: dict[str, Any] = dict(figures(episode.record())) if over else {}
        return observation._asdict(), reward, over and not episode.truncated, episode.truncated, info


def observation_space(shape: ObservationShape) -> spaces.Dict:
    """Return the space of the observations of this shape."""
    shapes = zip(Observation._fields, array_shapes(shape, shape.machines), strict=True)
    largest = float(np.finfo(np.float32).max)
    return spaces.Dict({name: spaces.Box(0.0, largest, of, np.float32) for name, of in shapes})
