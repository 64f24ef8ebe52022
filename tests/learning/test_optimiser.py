"""Updates of the weights."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from plb.learning.action_sampling import NotFiniteError
from plb.learning.optimiser import OptimiserState, updated
from plb.learning.settings import TrainingSettings

SETTINGS = TrainingSettings(learning_rate=0.01, gradient_norm=2.0)


def arrays(random, scale=1.0):
    """Return random weights or gradients."""
    return {name: (scale * random.normal(size=shape)).astype("f4") for name, shape in (("a", (3, 2)), ("b", 4))}


def equal(one, other):
    """Return whether arrays by name are equal bit for bit."""
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)


def test_separate_updates_equal_those_of_one_optimiser():
    """They are equal bit for bit, with gradients of all sizes, including zero: the state is complete."""
    random = np.random.default_rng(2)
    weights = arrays(random)
    state = OptimiserState.beginning(weights)
    tensors = {name: torch.tensor(value, requires_grad=True) for name, value in weights.items()}
    kept = torch.optim.Adam(tensors.values(), lr=0.01)
    for step in range(50):
        slopes = arrays(random, 10.0 ** (step % 7 - 4) * (step % 5 > 0))
        update = updated(weights, state, slopes, SETTINGS)
        weights, state = update.weights, update.state
        for name, tensor in tensors.items():
            tensor.grad = torch.tensor(slopes[name])
        torch.nn.utils.clip_grad_norm_(tensors.values(), 2.0)
        kept.step()
        assert equal(weights, {name: tensor.detach().numpy() for name, tensor in tensors.items()})
        norm = np.sqrt(sum(np.square(one, dtype=float).sum() for one in slopes.values()))
        assert update.gradient_norm == pytest.approx(norm, rel=1e-6)
    assert state.steps == 50


def test_update_does_not_change_its_arguments():
    """An update of the same arrays gives the same result."""
    random = np.random.default_rng(3)
    weights, slopes = arrays(random), arrays(random, 100.0)
    first = updated(weights, OptimiserState.beginning(weights), slopes, SETTINGS)
    given = (first.weights, slopes, first.state.first, first.state.second)
    before = [{name: value.copy() for name, value in each.items()} for each in given]
    one, other = (updated(first.weights, first.state, slopes, SETTINGS) for _ in range(2))
    assert all(equal(each, copy) for each, copy in zip(given, before, strict=True))
    assert equal(one.weights, other.weights)
    assert not equal(one.weights, first.weights)


@pytest.mark.parametrize("wrong", [np.nan, np.inf, 3e38])
def test_gradient_that_is_not_finite_is_refused(wrong):
    """A norm beyond float32 is refused as well."""
    weights = arrays(np.random.default_rng(4))
    slopes = {name: np.full_like(value, wrong) for name, value in weights.items()}
    with pytest.raises(NotFiniteError, match="the gradient is"):
        updated(weights, OptimiserState.beginning(weights), slopes, SETTINGS)
