"""REINFORCE with a baseline by time ([4], "Policy Network"): from the trajectories of a job sequence to a gradient.

The trajectories play the same jobs, so what they win from one time step on can be compared: the mean over them is the
baseline, and what one wins beyond it is the advantage of its decisions. N trajectories, K decisions in all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from plb.array_types import Float, Float32, Int
from plb.errors import MissingExtraError
from plb.learning.networks import batch_of, torch
from plb.learning.placement_game import WAIT

try:
    from gymnasium.vector import AutoresetMode, SyncVectorEnv
except ImportError:
    raise MissingExtraError("gymnasium") from None

MakeGame = Callable[[], Any]
"""Makes a game, an environment of Gymnasium as `plb.learning.placement_game` describes it."""
CHUNK = 512
"""Decisions of one forward and backward pass: enough to keep the processor busy, few enough for its caches."""


@attrs.frozen(eq=False)
class Trajectories:
    """The trajectories of one job sequence."""

    observations: Mapping[str, Float32]
    """What was seen before each decision, arrays of (K, …) by name."""
    actions: Int
    """What was decided, (K,)."""
    rewards: Float
    """The reward from each decision until the next one, (K,)."""
    times: Int
    """The time step of each decision, (K,)."""
    trajectory: Int
    """To which trajectory each decision belongs, (K,); the decisions of each are in their order."""
    ends: Int
    """Time step at which each trajectory was over, (N,)."""

    @property
    def totals(self) -> Float:
        """Sum of rewards of each trajectory, (N,)."""
        return np.bincount(self.trajectory, self.rewards, len(self.ends)).astype(np.float64)


def play(
    network: torch.nn.Module, make_game: MakeGame, seed: int, randoms: Sequence[np.random.Generator]
) -> Trajectories:
    """Play the game of a seed once for each of `randoms`, with actions sampled from the policy of the network.

    An environment whose game is over begins it again, to keep in step with the others; that does not count.
    """
    count = len(randoms)
    environments = SyncVectorEnv([make_game] * count, copy=False, autoreset_mode=AutoresetMode.DISABLED)
    seeds: list[int | None] = [seed] * count
    playing, ends, decisions = np.arange(count), np.zeros(count, np.int64), []
    observations, _ = environments.reset(seed=seeds)
    times = np.array(environments.get_attr("time"))
    with torch.inference_mode():
        while len(playing):
            seen = {name: array[playing] for name, array in observations.items()}
            uniforms = [randoms[place].random() for place in playing.tolist()]
            actions = np.full(count, WAIT)
            actions[playing] = sampled(network(batch_of(seen)).numpy(), uniforms)
            observations, rewards, ended, truncated, _ = environments.step(actions)
            decisions.append((seen, actions[playing], rewards[playing], times[playing], playing))
            times, over = np.array(environments.get_attr("time")), ended | truncated
            ends[playing] = times[playing]
            playing = playing[~over[playing]]
            if over.any() and len(playing):
                observations, _ = environments.reset(seed=seeds, options={"reset_mask": over})
    seen, *columns = zip(*decisions, strict=True)
    actions, rewards, times, trajectory = map(np.concatenate, columns)
    if not np.isfinite(rewards).all():
        raise FloatingPointError("a reward of the game is")
    arrays = {name: np.concatenate([each[name] for each in seen]) for name in seen[0]}
    return Trajectories(arrays, actions, rewards, times, trajectory, ends)


def sampled(logits: Float32, uniforms: Sequence[float]) -> Int:
    """Return an action sampled from each row of logits, by the inverse of its distribution at a uniform number."""
    if not np.isfinite(logits).all():
        raise FloatingPointError("a logit of the network is")
    exact = logits.astype(np.float64)
    likelihood = np.exp(exact - exact.max(axis=1, keepdims=True)).cumsum(axis=1)
    below = likelihood <= np.array(uniforms)[:, np.newaxis] * likelihood[:, -1:]
    return np.asarray(np.minimum(below.sum(axis=1), logits.shape[1] - 1))


def returns_to_go(played: Trajectories, discount: float) -> Float:
    """Return for each decision the sum of the rewards from it on, (K,); later ones are discounted by time steps."""
    returns = np.empty(len(played.rewards))
    for trajectory, end in enumerate(played.ends):
        places = np.flatnonzero(played.trajectory == trajectory)
        factors = discount ** np.diff(played.times[places], append=end).astype(np.float64)
        later = 0.0
        for place, factor in zip(places[::-1], factors[::-1], strict=True):
            later = returns[place] = played.rewards[place] + factor * later
    return returns


def baselines(played: Trajectories, returns: Float) -> Float:
    """Return for each decision the mean return over all trajectories from its time step on, (K,).

    A trajectory that decides nothing in that step counts with its return between its decisions before and after: a
    reward counts evenly over the time steps that it is for. From its end on it counts with nothing.
    """
    times, place = np.unique(played.times, return_inverse=True)
    total = np.zeros(len(times))
    for trajectory, end in enumerate(played.ends):
        own = played.trajectory == trajectory
        decided, first = np.unique(played.times[own], return_index=True)
        total += np.interp(times, [*decided, max(end, decided[-1] + 1)], [*returns[own][first], 0.0])
    mean: Float = total[place] / len(played.ends)
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


def add_gradient(network: torch.nn.Module, played: Trajectories, advantage: Float, entropy: float) -> float:
    """Add the gradient of the loss to that of the weights, and return the mean entropy of the policy in nats.

    The loss is minus the mean of log probability times advantage, (K,), minus `entropy` times the mean entropy.
    """
    count = len(played.actions)
    actions, worth = torch.from_numpy(played.actions), torch.from_numpy(advantage.astype(np.float32))
    total = 0.0
    for begin in range(0, count, CHUNK):
        part = slice(begin, begin + CHUNK)
        batch = batch_of({name: array[part] for name, array in played.observations.items()})
        logarithms = torch.log_softmax(network(batch), 1)
        taken = logarithms.gather(1, actions[part].unsqueeze(1)).squeeze(1)
        spread = -(logarithms.exp() * logarithms).sum()
        loss = -((taken * worth[part]).sum() + entropy * spread) / count
        loss.backward()
        total += float(spread.detach())
    return total / count
