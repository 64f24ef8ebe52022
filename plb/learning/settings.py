"""Settings of a training, and fields that check what they are given; no PyTorch is needed to read or check them."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import attrs

from plb.validation import check_count, check_known, check_number, check_text

ITEM = "training"
"""Name of `TrainingSettings` in errors."""
IMAGE, SCORER = "image", "scorer"
NETWORKS = (IMAGE, SCORER)
MOST_PLAYED = 10_000
"""Largest number of job sequences, and of times each is played."""
HIGHEST_ENTROPY = 1e6
"""Largest weight of the entropy."""


def count_field(item: str, default: Any = attrs.NOTHING, *, low: int = 0, high: int | None = None) -> Any:
    """Return a field of an attrs class for a whole number from `low` to `high`, kept as plain `int`.

    `item` names the class in errors.
    """
    return _field(partial(check_count, item, low=low, high=high), default)


def number_field(item: str, default: float, *, high: float = math.inf, low_open: bool = False) -> Any:
    """Return a field of an attrs class for a finite number from 0 to `high`, kept as plain `float`.

    `item` names the class in errors; `low_open`: 0 itself is refused.
    """
    return _field(partial(check_number, item, high=high, low_open=low_open), default)


def _field(check: Callable[[str, Any], Any], default: Any) -> Any:
    """Return a field of an attrs class that keeps the result of `check` for its name and the value that it gets."""

    def convert(value: Any, field: attrs.Attribute[Any]) -> Any:
        return check(field.name, value)

    return attrs.field(default=default, converter=attrs.Converter(convert, takes_field=True))


def _network(field: str, value: object) -> str:
    """Return `value` if it is the name of a network, else raise an error with the name of the field."""
    name = check_text(ITEM, field, value)
    check_known("network", name, NETWORKS, ITEM)
    return str(name)


@attrs.frozen(kw_only=True)
class TrainingSettings:
    """How a policy is trained."""

    network: str = _field(_network, SCORER)
    """``"scorer"``: each machine is scored by the same small network, so the policy takes any number of machines;
    ``"image"``: one network over the whole state, as in [4], for one number of machines."""
    iterations: int = count_field(ITEM, 200, low=1, high=10_000_000)
    """Number of updates of the weights. The entropy's weight falls over all of them, so a training is no beginning of a
    longer one, unless both weights of the entropy are equal."""
    sequences: int = count_field(ITEM, 8, low=1, high=MOST_PLAYED)
    """Job sequences played for each update."""
    trajectories: int = count_field(ITEM, 8, low=2, high=MOST_PLAYED)
    """How often each sequence is played; at least 2, since its trajectories are compared with one another."""
    learning_rate: float = number_field(ITEM, 1e-3, high=1e3, low_open=True)
    """Step size of the optimiser, Adam."""
    entropy: float = number_field(ITEM, 0.01, high=HIGHEST_ENTROPY)
    """Weight of the policy's entropy in what is maximised, in the first iteration. More of it makes the policy try
    more."""
    entropy_end: float = number_field(ITEM, 0.0, high=HIGHEST_ENTROPY)
    """Weight of the policy's entropy in the last iteration; linear between."""
    discount: float = number_field(ITEM, 1.0, high=1.0)
    """What a reward is worth one time step later."""
    hidden: int = count_field(ITEM, 64, low=1, high=4096)
    """Width of the hidden layers."""
    gradient_norm: float = number_field(ITEM, 1.0, low_open=True)
    """Longer gradients are shortened to this norm."""
    seed: int = count_field(ITEM, 0)
    """Seed of everything that is random: first weights, job sequences, actions."""

    def entropy_in(self, iteration: int) -> float:
        """Return the weight of the entropy in an iteration; the first is 1."""
        passed = min(1.0, (iteration - 1) / max(1, self.iterations - 1))
        return self.entropy + (self.entropy_end - self.entropy) * passed
