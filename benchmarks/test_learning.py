"""Cost of a decision of a learned policy, with pytest-benchmark.

pytest benchmarks/test_learning.py
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from cluster.learning.baselines import BASELINES, play
from cluster.learning.config import LearningConfig
from cluster.learning.environment import PlacementEnvironment
from cluster.learning.episode import Episode
from cluster.learning.job_sources import SourceOf
from cluster.learning.jobs import SyntheticJobs
from plb.learning.settings import TrainingSettings
from plb.learning.training import SequenceTask, learn_sequence, train

TRAJECTORIES = 8


@pytest.mark.parametrize("name", ["best-fit-mean", "least-penalty"])
def test_episode_of_a_heuristic(benchmark, name):
    """The episode has 120 jobs on ten machines."""
    sequence = SyntheticJobs().sequence(0)

    def run() -> float:
        return play(Episode(sequence), BASELINES[name])["reward"]

    assert benchmark(run) < 0


def test_game_without_a_network(benchmark):
    """The environment creates its observations, and actions are sampled uniformly."""
    environment = PlacementEnvironment(SyntheticJobs())

    def run() -> int:
        rng, over, decisions = np.random.default_rng(0), False, 0
        environment.reset(seed=0)
        while not over:
            _, _, ended, truncated, _ = environment.step(rng.integers(environment.action_space.n))
            over = ended or truncated
            decisions += 1
        return decisions

    assert benchmark(run) >= 120


@pytest.mark.parametrize("kind", ["scorer", "image"])
def test_gradient_of_a_job_sequence(benchmark, kind):
    """For each sequence of an iteration, a worker plays eight trajectories and computes their gradient."""
    config = LearningConfig()
    make_game = partial(PlacementEnvironment, SourceOf(config.jobs), config.machines, config.penalties)
    settings = TrainingSettings(network=kind, iterations=1, sequences=1, trajectories=TRAJECTORIES)
    weights = {name: value.numpy() for name, value in train(settings, make_game).weights.items()}
    result = benchmark(learn_sequence, SequenceTask(make_game, config.machines.shape, settings, weights, 1, 0))
    assert result.decisions > 120 * TRAJECTORIES
    benchmark.extra_info["decisions_per_second"] = round(result.decisions / benchmark.stats.stats.mean)
