"""The placement game and its Gymnasium environment."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from cluster.learning.dimensions import Dimensions
from cluster.learning.game import JobPlacementGame
from cluster.learning.rewards import Penalties
from cluster.learning.synthetic_jobs import SyntheticJobs
from plb.learning.placement_game import Observation, PlacementGame

ROOT = Path(__file__).parents[3]
SIZES = Dimensions(machines=3, horizon=6, past=2, visible=4, arrivals=5)
JOBS = SyntheticJobs(jobs=12, rate=1.0, long_steps=(4, 6))


def play(game: PlacementGame, seed: int) -> list[tuple[Observation, float, int]]:
    """Return observations and rewards under random actions."""
    rng = np.random.default_rng(0)
    steps, over = [(game.reset(seed), 0.0, game.time)], False
    while not over:
        observation, reward, over = game.step(int(rng.integers(game.shape.machines + 1)))
        steps.append((observation, reward, game.time))
    return steps


def assert_same(one: list[tuple[Observation, float, int]], other: list[tuple[Observation, float, int]]) -> None:
    """Assert that two games are equal bit for bit."""
    assert [step[1:] for step in one] == [step[1:] for step in other]
    for (seen, _, _), (same, _, _) in zip(one, other, strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(seen, same, strict=True))


def test_equal_seeds_give_equal_games():
    """Earlier episodes do not matter. A pickled copy, as in another process, plays the same game."""
    game = JobPlacementGame(JOBS, SIZES, Penalties(wait=1.0))
    first = play(game, 7)
    other = play(game, 8)
    assert_same(first, play(game, 7))
    assert_same(first, play(pickle.loads(pickle.dumps(game)), 7))
    assert [step[1] for step in first] != [step[1] for step in other]


def test_observations_have_the_declared_shape():
    """They are float32 before and after every decision."""
    game = JobPlacementGame(JOBS, SIZES)
    shape = game.shape
    requested = Observation(
        machines=(shape.machines, shape.resources, shape.past + shape.horizon),
        occupied=(shape.machines,),
        queue=(shape.visible, shape.resources, shape.horizon),
        waited=(shape.visible,),
        backlog=(1,),
        arrivals=(shape.arrivals,),
    )
    for observation, _, _ in play(game, 1):
        assert tuple(part.shape for part in observation) == tuple(requested)
        assert all(part.dtype == np.float32 for part in observation)


def test_the_environment_passes_the_check_of_gymnasium():
    """It emits no warning; pytest raises warnings as errors."""
    gymnasium = pytest.importorskip("gymnasium")
    from gymnasium.utils.env_checker import check_env

    from cluster.learning.environment import PlacementEnvironment

    spec = gymnasium.envs.registration.EnvSpec("plb/Placement-v0", entry_point=PlacementEnvironment)
    check_env(gymnasium.make(spec, source=JOBS, dimensions=SIZES).unwrapped)


def test_the_environment_plays_the_game():
    """Observations and rewards equal those of the game with the same seed. The last step contains the figures."""
    pytest.importorskip("gymnasium")
    from cluster.learning.environment import PlacementEnvironment

    environment = PlacementEnvironment(JOBS, SIZES)
    requested = play(JobPlacementGame(JOBS, SIZES), 7)
    rng, total, ended = np.random.default_rng(0), 0.0, False
    observation, info = environment.reset(seed=7)
    for seen, reward, _ in requested[1:]:
        assert not ended
        assert info == {}
        action = rng.integers(SIZES.machines + 1)
        observation, found, ended, truncated, info = environment.step(action)
        total += found
        assert (found, truncated) == (reward, False)
        assert all(np.array_equal(observation[name], part) for name, part in seen._asdict().items())
    assert ended
    assert info["reward"] == pytest.approx(total)


def test_the_environment_is_truncated_when_nothing_is_placed():
    """Otherwise the episode would not end."""
    pytest.importorskip("gymnasium")
    from cluster.learning.environment import PlacementEnvironment

    environment = PlacementEnvironment(JOBS, SIZES, longest_steps=20)
    environment.reset(seed=1)
    ended = truncated = False
    while not (ended or truncated):
        _, _, ended, truncated, info = environment.step(np.int64(0))
    assert (ended, truncated) == (False, True)
    assert info["unplaced"] == JOBS.jobs


MISSING = """
import sys
sys.modules["gymnasium"] = sys.modules["torch"] = None
import cluster.learning.game, cluster.learning.baselines, cluster.learning.job_sources
try:
    import cluster.learning.environment
except ImportError as error:
    print(error)
"""


def test_only_the_environment_needs_the_extra():
    """Only the environment needs Gymnasium, and its error states what to install. Nothing needs PyTorch."""
    done = subprocess.run([sys.executable, "-c", MISSING], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "gymnasium is not installed; pip install 'plb[learning]' brings it"
