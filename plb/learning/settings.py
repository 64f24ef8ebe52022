"""Settings of a training; no PyTorch is needed to read or check them."""

from __future__ import annotations

import attrs

from plb.errors import UnknownNameError
from plb.learning.fields import count_field, number_field
from plb.validation import check_text

ITEM = "training"
IMAGE, SCORER = "image", "scorer"
NETWORKS = (IMAGE, SCORER)
"""What computes a policy: a network over the whole state, as in [4], or one that scores machine by machine."""
MOST_ITERATIONS, MOST_PLAYED, WIDEST = 10_000_000, 10_000, 4096
"""Largest numbers of updates, of job sequences and of times each is played, and largest width of hidden layers."""
HIGHEST_RATE, HIGHEST_ENTROPY = 1e3, 1e6
"""Largest learning rate, and largest weight of the entropy."""


def _network(value: object) -> str:
    name = check_text(ITEM, "network", value)
    if name not in NETWORKS:
        raise UnknownNameError("network", name, NETWORKS, context=ITEM)
    return str(name)


@attrs.frozen(kw_only=True)
class TrainingSettings:
    """How a policy is trained.

    Parameters
    ----------
    network
        ``"scorer"``: each machine is scored by the same small network, so the policy takes any number of machines;
        ``"image"``: one network over the whole state, as in [4], for one number of machines.
    iterations
        Number of updates of the weights. The entropy's weight falls over all of them, so a training is no
        beginning of a longer one, unless both weights of the entropy are equal.
    sequences
        Job sequences played for each update.
    trajectories
        How often each of them is played; at least 2, since they are compared with one another.
    learning_rate
        Of Adam.
    entropy, entropy_end
        Weight of the policy's entropy in what is maximised, in the first iteration and in the last; linear between.
        More of it makes the policy try more.
    discount
        What a reward is worth one time step later.
    hidden
        Width of the hidden layers.
    gradient_norm
        Longer gradients are shortened to this norm.
    seed
        Of everything that is random: first weights, job sequences, actions.
    """

    network: str = attrs.field(default=SCORER, converter=_network)
    iterations: int = count_field(ITEM, 200, low=1, high=MOST_ITERATIONS)
    sequences: int = count_field(ITEM, 8, low=1, high=MOST_PLAYED)
    trajectories: int = count_field(ITEM, 8, low=2, high=MOST_PLAYED)
    learning_rate: float = number_field(ITEM, 1e-3, high=HIGHEST_RATE, low_open=True)
    entropy: float = number_field(ITEM, 0.01, high=HIGHEST_ENTROPY)
    entropy_end: float = number_field(ITEM, 0.0, high=HIGHEST_ENTROPY)
    discount: float = number_field(ITEM, 1.0, high=1.0)
    hidden: int = count_field(ITEM, 64, low=1, high=WIDEST)
    gradient_norm: float = number_field(ITEM, 1.0, low_open=True)
    seed: int = count_field(ITEM, 0, low=0)

    def entropy_in(self, iteration: int) -> float:
        """Return the weight of the entropy in an iteration; the first is 1."""
        passed = min(1.0, (iteration - 1) / max(1, self.iterations - 1))
        return self.entropy + (self.entropy_end - self.entropy) * passed
