"""Episodes as an environment of Gymnasium."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from cluster.learning.episode import Dimensions, Penalties
from cluster.learning.jobs import SyntheticJobs
from plb.learning.placement_game import ObservationShape

gymnasium = pytest.importorskip("gymnasium")
if TYPE_CHECKING:
    from cluster.learning.environment import PlacementEnvironment

ROOT = Path(__file__).parents[3]
SIZES = Dimensions(machines=3, horizon=6, past=2, visible=4, arrivals=5)
JOBS = SyntheticJobs(jobs=12, rate=1.0, long_steps=(4, 6))


def environment_of(**options: object) -> PlacementEnvironment:
    from cluster.learning.environment import PlacementEnvironment

    return PlacementEnvironment(JOBS, SIZES, **options)


def play(environment: PlacementEnvironment, seed: int) -> list[tuple[dict[str, np.ndarray], float, int]]:
    """Return observations, rewards and times under random actions; only the last step has figures."""
    rng = np.random.default_rng(0)
    observation, info = environment.reset(seed=seed)
    steps, over = [(observation, 0.0, environment.time)], False
    while not over:
        assert info == {}
        observation, reward, over, truncated, info = environment.step(rng.integers(SIZES.machines + 1))
        assert not truncated
        steps.append((observation, reward, environment.time))
    assert info["reward"] == pytest.approx(sum(reward for _, reward, _ in steps))
    return steps


def test_equal_seeds_give_equal_games():
    """Earlier episodes do not matter. A pickled copy, as in another process, plays the same game."""
    environment = environment_of(penalties=Penalties(wait=1.0))
    first, other = play(environment, 7), play(environment, 8)
    for again in (environment, pickle.loads(pickle.dumps(environment))):
        for step, same in zip(first, play(again, 7), strict=True):
            assert step[1:] == same[1:]
            assert all(np.array_equal(array, same[0][name]) for name, array in step[0].items())
    assert [step[1] for step in first] != [step[1] for step in other]


def test_observations_have_the_declared_shape():
    """They are float32 before and after every decision, and the shape can be read from the space."""
    environment = environment_of()
    assert ObservationShape.of(environment.observation_space) == SIZES.shape
    assert all(environment.observation_space.contains(observation) for observation, _, _ in play(environment, 1))


def test_the_environment_passes_the_check_of_gymnasium():
    """It emits no warning; pytest raises warnings as errors."""
    from gymnasium.utils.env_checker import check_env

    from cluster.learning.environment import PlacementEnvironment

    spec = gymnasium.envs.registration.EnvSpec("plb/Placement-v0", entry_point=PlacementEnvironment)
    check_env(gymnasium.make(spec, source=JOBS, dimensions=SIZES).unwrapped)


def test_the_environment_is_truncated_when_nothing_is_placed():
    """Otherwise the episode would not end."""
    environment = environment_of(longest_steps=20)
    environment.reset(seed=1)
    ended = truncated = False
    while not (ended or truncated):
        _, _, ended, truncated, info = environment.step(np.int64(0))
    assert (ended, truncated) == (False, True)
    assert info["unplaced"] == JOBS.jobs


MISSING = """
import sys
sys.modules["gymnasium"] = sys.modules["torch"] = None
import cluster.learning.training, cluster.learning.evaluation
try:
    import cluster.learning.environment
except ImportError as error:
    print(error)
"""


def test_only_the_environment_needs_the_extra():
    done = subprocess.run([sys.executable, "-c", MISSING], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("gymnasium is not installed. It belongs to the extra 'learning': ")
