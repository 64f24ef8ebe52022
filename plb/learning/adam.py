"""Adam (Kingma and Ba, ICLR 2015, algorithm 1) over weights by name: plain arrays, so a checkpoint holds all of it."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import numpy as np

from plb.learning.interface import Float32

FIRST_DECAY, SECOND_DECAY = 0.9, 0.999
TINY = np.float32(1e-8)


@attrs.frozen(eq=False)
class Adam:
    """The state of an optimisation.

    Parameters
    ----------
    first, second
        Decaying means of the gradients and of their squares, by weight.
    steps
        Updates so far.
    """

    first: Mapping[str, Float32]
    second: Mapping[str, Float32]
    steps: int = 0

    @classmethod
    def beginning(cls, weights: Mapping[str, Float32]) -> Adam:
        """Return the state before the first update."""
        zeros = {name: np.zeros_like(value) for name, value in weights.items()}
        return cls(first=zeros, second=zeros)

    def after(self, gradient: Mapping[str, Float32]) -> Adam:
        """Return the state after one more gradient."""
        return Adam(
            first={name: _mixed(self.first[name], one, FIRST_DECAY) for name, one in gradient.items()},
            second={name: _mixed(self.second[name], np.square(one), SECOND_DECAY) for name, one in gradient.items()},
            steps=self.steps + 1,
        )

    def moved(self, weights: Mapping[str, Float32], rate: float) -> dict[str, Float32]:
        """Return the weights one step downwards; there must have been a gradient."""
        length = np.float32(rate / (1.0 - FIRST_DECAY**self.steps))
        unbias = np.float32(1.0 / (1.0 - SECOND_DECAY**self.steps))
        return {
            name: value - length * self.first[name] / (np.sqrt(unbias * self.second[name]) + TINY)
            for name, value in weights.items()
        }


def _mixed(mean: Float32, new: Float32, decay: float) -> Float32:
    mixed: Float32 = np.float32(decay) * mean + np.float32(1.0 - decay) * new
    return mixed
