"""The networks of policies."""

from __future__ import annotations

import attrs
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from plb.learning.networks import batch_of, empty_network, first_weights
from plb.learning.placement_game import ObservationShape
from plb.learning.settings import NETWORKS, SCORER, TrainingSettings
from tests.learning.games import LARGE, SMALL, random_observation, stacked


def new_network(kind, shape, seed=0, noise=0.0, hidden=16):
    """Return a network with initial weights plus noise."""
    network = empty_network(TrainingSettings(network=kind, hidden=hidden), shape)
    random = np.random.default_rng(seed)
    weights = first_weights(network, random)
    for value in weights.values():
        value += torch.from_numpy(random.normal(0, noise, value.shape).astype("f4"))
    network.load_state_dict(weights, assign=True)
    return network


def network_of(kind, shape, seed=0):
    """Return a network in which every part has an effect."""
    return new_network(kind, shape, seed, noise=0.1)


def logits_of(network, *observations):
    """Return the logits of some observations, (B, 1 + M)."""
    with torch.inference_mode():
        return network(batch_of(stacked(*observations))).numpy()


@given(seed=st.integers(0, 2**32), machines=st.integers(1, 12), data=st.data())
@settings(max_examples=40, deadline=None)
def test_permuted_machines_permute_the_scores(seed, machines, data):
    order = data.draw(st.permutations(range(machines)))
    network = network_of(SCORER, SMALL, seed % 7)
    seen = random_observation(np.random.default_rng(seed), attrs.evolve(SMALL, machines=machines))
    other = seen._replace(machines=seen.machines[order], occupied=seen.occupied[order])
    before, after = logits_of(network, seen)[0], logits_of(network, other)[0]
    assert after[0] == pytest.approx(before[0], abs=1e-4)
    assert after[1:] == pytest.approx(before[1:][order], abs=1e-4)


@given(seed=st.integers(0, 2**32))
@settings(max_examples=20, deadline=None)
def test_equal_machines_have_equal_scores_in_any_number(seed):
    network = network_of(SCORER, SMALL)
    one = random_observation(np.random.default_rng(seed), attrs.evolve(SMALL, machines=1))
    many = one._replace(machines=np.repeat(one.machines, 9, axis=0), occupied=np.repeat(one.occupied, 9))
    single, several = logits_of(network, one)[0], logits_of(network, many)[0]
    assert several == pytest.approx(single[[0] + [1] * 9], abs=1e-4)


@pytest.mark.parametrize("kind", NETWORKS)
def test_every_input_counts(kind):
    network = network_of(kind, LARGE)
    seen = random_observation(np.random.default_rng(1), LARGE)
    plain = logits_of(network, seen)
    for name, array in seen._asdict().items():
        assert not np.allclose(logits_of(network, seen._replace(**{name: array + np.float32(0.3)})), plain), name


@pytest.mark.parametrize("kind", NETWORKS)
def test_first_policy_is_almost_uniform(kind):
    network = new_network(kind, LARGE, hidden=64)
    seen = [random_observation(np.random.default_rng(seed), LARGE) for seed in range(20)]
    logits = logits_of(network, *seen)
    assert np.ptp(logits, axis=1).max() < 0.3


@pytest.mark.parametrize("kind", NETWORKS)
def test_smallest_shape_is_accepted(kind):
    shape = ObservationShape(machines=1, resources=1, past=0, horizon=1, visible=1, arrivals=1)
    logits = logits_of(network_of(kind, shape), random_observation(np.random.default_rng(0), shape))
    assert logits.shape == (1, 2)
    assert np.isfinite(logits).all()


@pytest.mark.parametrize("kind", NETWORKS)
def test_weights_come_from_the_given_randomness_only(kind):
    before = torch.get_rng_state()
    networks = [new_network(kind, SMALL) for _ in range(2)]
    assert torch.equal(before, torch.get_rng_state())
    first, second = (network.state_dict() for network in networks)
    assert all(torch.equal(first[name], second[name]) for name in first)
