"""Trajectories of a job sequence."""

from __future__ import annotations

import attrs
import numpy as np
import pytest
import torch

from plb.learning.action_sampling import NotFiniteError
from plb.learning.networks import batch_of
from plb.learning.placement_game import Observation
from plb.learning.settings import NETWORKS
from plb.learning.trajectories import play
from tests.learning.games import LARGE, Cheap, EmptierMachine
from tests.learning.test_networks import network_of


def randoms(count):
    """Return random generators of the given number of trajectories."""
    return [np.random.default_rng([7, one]) for one in range(count)]


@attrs.define
class Uneven(EmptierMachine):
    """Ends immediately after a wait, so that trajectories differ in length."""

    def step(self, action):
        """Apply an action."""
        seen, reward, over = super().step(action)
        return seen, reward, over or action == 0


@pytest.mark.parametrize("kind", NETWORKS)
def test_trajectories_in_lockstep_equal_separate_ones(kind):
    """Actions, rewards, times and observations equal those of a loop over one game at a time."""
    network = network_of(kind, Uneven().shape)
    played = play(network, [Uneven(steps=30) for _ in range(6)], 11, randoms(6))
    lengths = []
    for one, random in enumerate(randoms(6)):
        game, where = Uneven(steps=30), np.flatnonzero(played.trajectory == one)
        seen, over, total = game.reset(11), False, 0.0
        for decision in where:
            with torch.inference_mode():
                logits = network(batch_of(Observation(*(part[np.newaxis] for part in seen))))[0]
            chances = torch.softmax(logits.double(), 0).numpy()
            action = int(np.searchsorted(np.cumsum(chances), random.random(), side="right"))
            assert played.actions[decision] == action
            assert played.times[decision] == game.time
            assert all(np.array_equal(part[decision], own) for part, own in zip(played.observations, seen, strict=True))
            seen, reward, over = game.step(action)
            assert played.rewards[decision] == reward
            total += reward
        assert over
        assert played.ends[one] == game.time
        assert played.totals[one] == total
        lengths.append(len(where))
    assert len(set(lengths)) > 1


def test_long_games_exceed_the_initial_memory():
    """No observation is lost when the arrays grow."""
    played = play(network_of("image", LARGE), [Cheap(decisions=300) for _ in range(2)], 3, randoms(2))
    game = Cheap(decisions=300)
    seen = [game.reset(3)] + [game.step(0)[0] for _ in range(299)]
    assert len(played.actions) == 600
    for one in range(2):
        machines = played.observations.machines[played.trajectory == one]
        assert np.array_equal(machines, np.stack([each.machines for each in seen]))


def test_actions_are_sampled_with_the_probabilities_of_the_policy():
    """The shares of many samples approach the probabilities."""
    network = network_of("image", LARGE)
    counts = np.zeros(11)
    expected = np.zeros(11)
    played = play(network, [Cheap(decisions=400) for _ in range(8)], 3, randoms(8))
    with torch.inference_mode():
        expected = torch.softmax(network(batch_of(played.observations)), 1).numpy().mean(axis=0)
    counts = np.bincount(played.actions, minlength=11) / len(played.actions)
    assert counts == pytest.approx(expected, abs=0.04)


@attrs.define
class Broken(EmptierMachine):
    """Gives a reward that is not a number."""

    def step(self, action):
        """Apply an action."""
        seen, _, over = super().step(action)
        return seen, float("nan"), over


def test_numbers_that_are_not_finite_are_refused():
    """They may come from the game or from the network."""
    network = network_of("scorer", Broken().shape)
    with pytest.raises(NotFiniteError, match="reward"):
        play(network, [Broken()], 0, randoms(1))
    with torch.no_grad():
        network.last_wait.bias.fill_(float("nan"))
    with pytest.raises(NotFiniteError, match="logit"):
        play(network, [EmptierMachine()], 0, randoms(1))
