"""Jobs of a user in the placement game: for heuristics, and for other learners with Gymnasium.

There are two kinds of jobs: one has its high usage in the first half, the other in the second. Two jobs of one kind do
not fit on a machine, and two of different kinds do.

    python examples/learning_environment.py
"""

from __future__ import annotations

import sys

import attrs
import numpy as np

from cluster.learning.baselines import BASELINES, play
from cluster.learning.episode import Dimensions, Episode
from cluster.learning.jobs import Job, JobSequence
from plb.errors import MissingExtraError

try:
    from cluster.learning.environment import PlacementEnvironment
except MissingExtraError as error:
    sys.exit(f"{error}")

SIZES = Dimensions(machines=6, horizon=8)


@attrs.frozen
class DayAndNight:
    """Jobs of eight steps, about one per step."""

    jobs: int = 40

    def sequence(self, seed: int) -> JobSequence:
        """Return the sequence of a seed."""
        rng = np.random.default_rng(seed)
        arrival = np.cumsum(rng.integers(0, 3, self.jobs))
        by_day = rng.random(self.jobs) < 0.5
        high, low = np.full((4, 2), 0.6), np.full((4, 2), 0.2)
        curves = [np.vstack([high, low] if day else [low, high]) for day in by_day]
        return JobSequence([Job(int(step), curve) for step, curve in zip(arrival, curves, strict=True)])


def main() -> None:
    """Compare heuristics, and play randomly with Gymnasium."""
    for name in ("tetris-mean", "best-fit-present", "least-penalty"):
        figures = play(Episode(DayAndNight().sequence(7), SIZES), BASELINES[name])
        print(f"{name}: reward {figures['reward']:.1f}, over-use {figures['over_use']:.2f}, wait {figures['wait']:.1f}")

    environment = PlacementEnvironment(DayAndNight(), SIZES)
    environment.action_space.seed(7)
    observation, _ = environment.reset(seed=7)
    print("observation:", {name: array.shape for name, array in observation.items()})
    total, ended, cut_short, info = 0.0, False, False, {}
    while not (ended or cut_short):
        observation, reward, ended, cut_short, info = environment.step(environment.action_space.sample())
        total += reward
    print(f"random: reward {total:.1f}, over-use {info['over_use']:.2f}, wait {info['wait']:.1f}")


if __name__ == "__main__":
    main()
