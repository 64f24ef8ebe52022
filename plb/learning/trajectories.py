"""Trajectories of one job sequence in lockstep, so that one pass of the network serves all of them."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import numpy as np

from plb.array_types import Float, Float32, Int
from plb.learning.action_sampling import NotFiniteError, sampled_actions
from plb.learning.networks import batch_of
from plb.learning.placement_game import Observation, ObservationShape, PlacementGame, array_shapes
from plb.learning.pytorch import torch

FIRST_CAPACITY = 64
"""Decisions of a trajectory for which memory is allocated at first."""


@attrs.frozen(eq=False)
class Trajectories:
    """The N trajectories of one job sequence, K decisions in total.

    Parameters
    ----------
    observations
        What was seen before each decision, arrays of (K, …).
    actions, rewards, times
        Of each decision, (K,): what was decided, the reward until the next one, the time step.
    trajectory
        To which trajectory each decision belongs, (K,); the decisions of each are in their order.
    ends
        Time step at which each trajectory was over, (N,).
    """

    observations: Observation
    actions: Int
    rewards: Float
    times: Int
    trajectory: Int
    ends: Int

    @property
    def totals(self) -> Float:
        """Sum of rewards of each trajectory, (N,)."""
        return np.bincount(self.trajectory, self.rewards, len(self.ends)).astype(np.float64)


def play(
    network: torch.nn.Module, games: Sequence[PlacementGame], seed: int, randoms: Sequence[np.random.Generator]
) -> Trajectories:
    """Play the game of a seed once in each of `games`, with actions sampled from the policy.

    Parameters
    ----------
    network
        Returns the logits.
    games
        As many as there shall be trajectories; they share nothing.
    seed
        Of the game, the same for all.
    randoms
        The randomness of each trajectory's actions.
    """
    seen = _Seen(games[0].shape, FIRST_CAPACITY * len(games))
    present = [game.reset(seed) for game in games]
    rewards: list[float] = []
    times: list[int] = []
    trajectory: list[int] = []
    actions: list[int] = []
    going = list(range(len(games)))
    with torch.inference_mode():
        while going:
            logits = network(batch_of(seen.add([present[one] for one in going]))).numpy()
            chosen = sampled_actions(logits, [randoms[one].random() for one in going])
            trajectory += going
            actions += chosen
            still = []
            for one, action in zip(going, chosen, strict=True):
                times.append(games[one].time)
                present[one], reward, over = games[one].step(action)
                rewards.append(reward)
                if not over:
                    still.append(one)
            going = still
    if not np.isfinite(rewards).all():
        raise NotFiniteError("a reward of the game is")
    return Trajectories(
        observations=seen.all(),
        actions=np.array(actions, dtype=np.int64),
        rewards=np.array(rewards, dtype=np.float64),
        times=np.array(times, dtype=np.int64),
        trajectory=np.array(trajectory, dtype=np.int64),
        ends=np.array([game.time for game in games], dtype=np.int64),
    )


class _Seen:
    """Observations one after another in arrays that grow by doubling, so that none is copied twice to be stacked."""

    def __init__(self, shape: ObservationShape, capacity: int) -> None:
        self._count = 0
        self._arrays = Observation(
            *(np.empty((capacity, *one), dtype=np.float32) for one in array_shapes(shape, shape.machines))
        )

    def add(self, observations: Sequence[Observation]) -> Observation:
        """Add some, and return just these, (len(observations), …)."""
        begin, end = self._count, self._count + len(observations)
        if end > len(self._arrays.backlog):
            capacity = max(2 * len(self._arrays.backlog), end)
            self._arrays = Observation(*(_enlarged(array, capacity) for array in self._arrays))
        for array, *parts in zip(self._arrays, *observations, strict=True):
            for row, part in enumerate(parts, begin):
                array[row] = part
        self._count = end
        return Observation(*(array[begin:end] for array in self._arrays))

    def all(self) -> Observation:
        """Return all that were added."""
        return Observation(*(array[: self._count] for array in self._arrays))


def _enlarged(array: Float32, capacity: int) -> Float32:
    larger = np.empty((capacity, *array.shape[1:]), dtype=array.dtype)
    larger[: len(array)] = array
    return larger
