"""Episodes as an environment of Gymnasium: the game on which a policy is trained, also by other learning algorithms."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any

import numpy as np

from cluster.learning.episode import Dimensions, Episode, Penalties
from cluster.learning.jobs import JobSource, SyntheticJobs
from cluster.learning.metrics import figures
from plb.array_types import Float32
from plb.errors import MissingExtraError
from plb.learning.placement_game import ObservationShape

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
    The `info` of the last step has the figures of the episode (`cluster.learning.metrics.FIGURES`); other steps have an
    empty `info`.

    Parameters
    ----------
    source
        Source of the jobs; None: `SyntheticJobs`. ``reset(seed=7)`` begins the sequence of seed 7; a reset without a
        seed chooses a random seed.
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
        """Begin without an episode; arguments that are None have defaults, `longest_steps` is as for `Episode`."""
        self.source: JobSource = SyntheticJobs() if source is None else source
        sizes = Dimensions() if dimensions is None else dimensions
        self._begin = partial(Episode, dimensions=sizes, penalties=penalties, longest_steps=longest_steps)
        self.observation_space = observation_space(sizes.shape)
        self.action_space = spaces.Discrete(sizes.machines + 1)

    @property
    def time(self) -> int:
        """The present time step."""
        return self.episode.time

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Float32], dict[str, Any]]:
        """Begin another episode; there are no options."""
        super().reset(seed=seed, options=options)
        sequence_seed = int(self.np_random.integers(SEEDS)) if seed is None else seed
        self.episode: Episode = self._begin(self.source.sequence(sequence_seed))
        return self.episode.observe()._asdict(), {}

    def step(self, action: np.int64) -> tuple[dict[str, Float32], float, bool, bool, dict[str, Any]]:
        """Decide; return observation, reward, whether the episode ended or was truncated, and the figures."""
        episode = self.episode
        reward = episode.decide(action)  # type: ignore[arg-type]
        info: dict[str, Any] = dict(figures(episode)) if episode.over else {}
        return episode.observe()._asdict(), reward, episode.over and not episode.truncated, episode.truncated, info


@lru_cache
def observation_space(shape: ObservationShape) -> spaces.Dict:
    """Return the space of the observations of a shape."""
    largest = float(np.finfo(np.float32).max)
    return spaces.Dict(
        {name: spaces.Box(0.0, largest, array_shape) for name, array_shape in shape.arrays(shape.machines).items()}
    )
