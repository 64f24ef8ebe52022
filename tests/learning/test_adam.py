"""Adam."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from plb.learning.adam import Adam


def test_it_moves_weights_as_pytorch_does():
    """Over many updates, with gradients of all sizes, zero among them."""
    random = np.random.default_rng(2)
    weights = {"a": random.normal(size=(3, 2)).astype("f4"), "b": random.normal(size=4).astype("f4")}
    tensors = {name: torch.tensor(value, requires_grad=True) for name, value in weights.items()}
    theirs = torch.optim.Adam(tensors.values(), lr=0.01)
    ours = Adam.beginning(weights)
    for step in range(50):
        slopes = {
            name: (random.normal(size=value.shape) * 10.0 ** (step % 7 - 4) * (step % 5 > 0)).astype("f4")
            for name, value in weights.items()
        }
        ours = ours.after(slopes)
        weights = ours.moved(weights, 0.01)
        for name, tensor in tensors.items():
            tensor.grad = torch.from_numpy(slopes[name])
        theirs.step()
    for name, tensor in tensors.items():
        assert weights[name].dtype == np.float32
        assert weights[name] == pytest.approx(tensor.detach().numpy(), abs=1e-5)
