"""Episodes as the game on which a policy is trained."""

from __future__ import annotations

from cluster.learning.dimensions import Dimensions
from cluster.learning.episode import Episode
from cluster.learning.job_sequence import JobSource
from cluster.learning.rewards import Penalties
from plb.learning.placement_game import Observation, ObservationShape


class JobPlacementGame:
    """A `plb.learning.placement_game.PlacementGame`. A source has the jobs of each seed.

    Parameters
    ----------
    source
        Source of the jobs.
    dimensions, penalties, longest_steps
        See `Episode`.
    """

    def __init__(
        self,
        source: JobSource,
        dimensions: Dimensions | None = None,
        penalties: Penalties | None = None,
        *,
        longest_steps: int | None = None,
    ) -> None:
        self.source = source
        self.episode = Episode(dimensions, penalties, longest_steps=longest_steps)

    @property
    def shape(self) -> ObservationShape:
        """Dimensions of its observations."""
        return self.episode.dimensions.shape

    @property
    def time(self) -> int:
        """The present time step."""
        return self.episode.time

    def reset(self, seed: int) -> Observation:
        """Begin the game of a seed, and return the observation before the first decision."""
        self.episode.begin(self.source.sequence(seed))
        return self.episode.observe()

    def step(self, action: int) -> tuple[Observation, float, bool]:
        """Decide; return the next observation, the reward until then, and whether the game is over."""
        reward = self.episode.decide(action)
        return self.episode.observe(), reward, self.episode.over
