"""REINFORCE with a baseline by time ([4], "Policy Network"): from the trajectories of a job sequence to a gradient.

The trajectories play the same jobs, so what they win from one time step on can be compared: the mean over them is the
baseline, and what one wins beyond it is the advantage of its decisions. K decisions in all.
"""

from __future__ import annotations

import attrs
import numpy as np

from plb.array_types import Float, Float32
from plb.learning.networks import batch_of
from plb.learning.placement_game import Observation
from plb.learning.pytorch import torch
from plb.learning.trajectories import Trajectories

CHUNK = 512
"""Decisions of one forward and backward pass: enough to keep the processor busy, few enough for its caches."""


@attrs.frozen(eq=False)
class Gradient:
    """The result of one job sequence.

    Parameters
    ----------
    steepest
        Gradient of the loss by weight.
    entropy
        Mean entropy of the policy over the decisions, in nats.
    """

    steepest: dict[str, Float32]
    entropy: float


def returns_to_go(played: Trajectories, discount: float) -> Float:
    """Return for each decision the sum of the rewards from it on, (K,); later ones are discounted by time steps."""
    returns = np.empty(len(played.rewards))
    for one in range(len(played.ends)):
        where = np.flatnonzero(played.trajectory == one)
        factors = discount ** np.diff(played.times[where], append=played.ends[one]).astype(np.float64)
        later = 0.0
        for place, factor in zip(where[::-1], factors[::-1], strict=True):
            later = returns[place] = played.rewards[place] + factor * later
    return returns


def baselines(played: Trajectories, returns: Float) -> Float:
    """Return for each decision the mean return over all trajectories from its time step on, (K,).

    A trajectory that decides nothing in that step counts with its return between its decisions before and after: a
    reward counts evenly over the time steps that it is for. From its end on it counts with nothing.
    """
    times, where = np.unique(played.times, return_inverse=True)
    total = np.zeros(len(times))
    for one, end in enumerate(played.ends):
        of_trajectory = played.trajectory == one
        known, first = np.unique(played.times[of_trajectory], return_index=True)
        total += np.interp(times, [*known, max(end, known[-1] + 1)], [*returns[of_trajectory][first], 0.0])
    mean: Float = total[where] / len(played.ends)
    return mean


def advantages(played: Trajectories, discount: float) -> Float:
    """Return for each decision what its trajectory wins beyond the baseline, (K,), in standard deviations."""
    returns = returns_to_go(played, discount)
    beyond = returns - baselines(played, returns)
    deviation = beyond.std()
    # equal trajectories differ by rounding only
    if deviation <= 1e-9 * max(1.0, float(np.abs(returns).max())):
        return np.zeros_like(beyond)
    scaled: Float = beyond / deviation
    return scaled


def gradient(network: torch.nn.Module, played: Trajectories, advantage: Float, entropy: float) -> Gradient:
    """Return the gradient of the loss: minus the mean of log probability times advantage, minus the entropy's share.

    Parameters
    ----------
    network
        As it played.
    advantage
        Of each decision, (K,).
    entropy
        Weight of the mean entropy.
    """
    count = len(played.actions)
    actions, worth = torch.from_numpy(played.actions), torch.from_numpy(advantage.astype(np.float32))
    network.zero_grad(set_to_none=True)
    found = 0.0
    for begin in range(0, count, CHUNK):
        part = slice(begin, begin + CHUNK)
        logarithms = torch.log_softmax(network(batch_of(Observation(*(one[part] for one in played.observations)))), 1)
        taken = logarithms.gather(1, actions[part].unsqueeze(1)).squeeze(1)
        spread = -(logarithms.exp() * logarithms).sum()
        loss = -((taken * worth[part]).sum() + entropy * spread) / count
        loss.backward()
        found += float(spread.detach())
    steepest = {name: value.grad.numpy().copy() for name, value in network.named_parameters()}
    return Gradient(steepest=steepest, entropy=found / count)
