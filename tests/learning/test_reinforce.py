"""Trajectories of a job sequence, and gradients from them."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from plb.learning import training
from plb.learning.networks import batch_of
from plb.learning.settings import NETWORKS
from plb.learning.training import Trajectories, add_gradient, advantages, baselines, play, returns_to_go
from tests.learning.games import SMALL, EmptierMachine, random_observation, stacked
from tests.learning.test_networks import network_of


def trajectories(*each):
    """Return trajectories from (end, [(time, reward), …]) of each, interleaved as in lockstep."""
    rows = sorted(
        (number, one, time, reward)
        for one, (_, decisions) in enumerate(each)
        for number, (time, reward) in enumerate(decisions)
    )
    random = np.random.default_rng(4)
    return Trajectories(
        observations=stacked(*(random_observation(random, SMALL) for _ in rows)),
        actions=random.integers(0, 4, len(rows)),
        rewards=np.array([row[3] for row in rows], dtype=float),
        times=np.array([row[2] for row in rows]),
        trajectory=np.array([row[1] for row in rows]),
        ends=np.array([end for end, _ in each]),
    )


PLAYED = trajectories(
    (4, [(0, 0.0), (0, -1.0), (1, -2.0), (3, -4.0)]),
    (3, [(0, -1.0), (1, 0.0), (1, -1.0), (2, -1.0)]),
)


def test_discount_depends_on_time_not_on_decisions():
    """At a discount of a half, a reward two steps later counts a quarter, one in the same step in full."""
    returns = returns_to_go(PLAYED, 0.5)
    assert returns[PLAYED.trajectory == 0].tolist() == [-2.5, -2.5, -3.0, -4.0]
    nothing = returns_to_go(PLAYED, 0.0)
    assert nothing[PLAYED.trajectory == 0].tolist() == [-1.0, -1.0, -2.0, -4.0]


def test_baseline_is_the_mean_at_the_same_time():
    """Returns are interpolated between decisions, and zero after the end; the number of decisions does not matter."""
    found = baselines(PLAYED, returns_to_go(PLAYED, 1.0))
    at = {0: (-7.0 - 3.0) / 2, 1: (-6.0 - 2.0) / 2, 2: (-5.0 - 1.0) / 2, 3: (-4.0 - 0.0) / 2}
    assert found.tolist() == [at[time] for time in PLAYED.times]


def test_advantages_are_in_standard_deviations():
    plain = advantages(PLAYED, 1.0)
    assert plain.std() == pytest.approx(1.0)
    scaled = trajectories(
        (4, [(0, 0.0), (0, -10.0), (1, -20.0), (3, -40.0)]), (3, [(0, -10.0), (1, 0.0), (1, -10.0), (2, -10.0)])
    )
    assert advantages(scaled, 1.0) == pytest.approx(plain)


def test_equal_trajectories_have_no_advantage():
    """Rounding errors do not count as differences."""
    same = (9, [(time, -0.1 * time) for time in range(9)])
    assert not advantages(trajectories(same, same, same), 1.0).any()


@given(
    rewards=st.lists(st.lists(st.floats(-5, 0), min_size=1, max_size=9), min_size=2, max_size=4),
    discount=st.sampled_from([1.0, 0.9]),
)
@settings(max_examples=60, deadline=None)
def test_one_decision_per_step_gives_plain_sums(rewards, discount):
    """Returns and baselines equal those of a table of trajectories by time, with zeros after the end."""
    played = trajectories(*((len(own), list(enumerate(own))) for own in rewards))
    table = np.zeros((len(rewards), 10))
    for one, own in enumerate(rewards):
        for time in range(len(own)):
            table[one, time] = sum(reward * discount**later for later, reward in enumerate(own[time:]))
    returns = returns_to_go(played, discount)
    assert returns == pytest.approx(table[played.trajectory, played.times], abs=1e-9)
    assert baselines(played, returns) == pytest.approx(table.mean(axis=0)[played.times], abs=1e-9)


def loss_of(network, played, advantage, entropy):
    """Return the loss in one pass, by another formula."""
    policy = torch.distributions.Categorical(logits=network(batch_of(played.observations)))
    reward = (policy.log_prob(torch.from_numpy(played.actions)) * torch.from_numpy(advantage).float()).mean()
    return -reward - entropy * policy.entropy().mean()


@pytest.mark.parametrize("kind", NETWORKS)
@pytest.mark.parametrize("chunk", [3, 512])
def test_gradient_is_that_of_the_loss(kind, chunk, monkeypatch):
    """In chunks or at once, it equals the derivative that PyTorch computes from the distribution."""
    monkeypatch.setattr(training, "CHUNK", chunk)
    network = network_of(kind, SMALL)
    advantage = advantages(PLAYED, 1.0)
    entropy = add_gradient(network, PLAYED, advantage, 0.1)
    gradient = {name: value.grad.numpy().copy() for name, value in network.named_parameters()}
    network.zero_grad()
    loss_of(network, PLAYED, advantage, 0.1).backward()
    for name, value in network.named_parameters():
        assert gradient[name] == pytest.approx(value.grad.numpy(), abs=1e-5), name
    assert 0 < entropy <= np.log(4)


def randoms(count):
    """Return random generators of the given number of trajectories."""
    return [np.random.default_rng([7, number]) for number in range(count)]


def played_by(network, game, seed, count):
    """Return some trajectories of a game, which is given by a class and its number of steps."""
    kind, steps = game
    return play(network, partial(kind, steps), seed, randoms(count))


class Uneven(EmptierMachine):
    """Ends immediately after a wait, so that trajectories differ in length."""

    def step(self, action):
        seen, reward, over, truncated, info = super().step(action)
        return seen, reward, over or action == 0, truncated, info


@pytest.mark.parametrize("kind", NETWORKS)
def test_trajectories_in_lockstep_equal_separate_ones(kind):
    """Actions, rewards, times and observations equal those of a loop over one game at a time."""
    network = network_of(kind, SMALL)
    played = played_by(network, (Uneven, 30), 11, 6)
    lengths = []
    for number, random in enumerate(randoms(6)):
        game, places = Uneven(30), np.flatnonzero(played.trajectory == number)
        (seen, _), over, total = game.reset(seed=11), False, 0.0
        for decision in places:
            with torch.inference_mode():
                logits = network(batch_of({name: array[np.newaxis] for name, array in seen.items()}))[0]
            chances = torch.softmax(logits.double(), 0).numpy()
            action = int(np.searchsorted(np.cumsum(chances), random.random(), side="right"))
            assert played.actions[decision] == action
            assert played.times[decision] == game.time
            assert all(np.array_equal(played.observations[name][decision], array) for name, array in seen.items())
            seen, reward, over, _, _ = game.step(action)
            assert played.rewards[decision] == reward
            total += reward
        assert over
        assert played.ends[number] == game.time
        assert played.totals[number] == total
        lengths.append(len(places))
    assert len(set(lengths)) > 1


class Broken(EmptierMachine):
    """Gives a reward that is not a number."""

    def reward(self, action):
        return action * float("nan")


def test_numbers_that_are_not_finite_are_refused():
    network = network_of("scorer", SMALL)
    with pytest.raises(FloatingPointError, match="reward"):
        played_by(network, (Broken, 8), 0, 1)
    with torch.no_grad():
        network.last_wait.bias.fill_(float("nan"))
    with pytest.raises(FloatingPointError, match="logit"):
        played_by(network, (EmptierMachine, 8), 0, 1)
