"""Training a policy by REINFORCE with a baseline by time ([4], "Policy Network").

Workers play job sequences, several times each, and one process combines their gradients. The trajectories of a sequence
play the same jobs, so what they win from one time step on can be compared: the mean over them is the baseline, and what
one wins beyond it is the advantage of its decisions. N trajectories of a sequence, K decisions in all.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from plb.array_types import Float, Float32, Int
from plb.errors import CheckpointError, DivergedError, MissingExtraError
from plb.learning.checkpoints import Checkpoint, CurveRow, read_checkpoint, resumed_checkpoint, write_checkpoint
from plb.learning.networks import batch_of, empty_network, first_weights, one_thread, torch
from plb.learning.placement_game import WAIT, ObservationShape
from plb.learning.settings import TrainingSettings
from plb.validation import check_count

try:
    from gymnasium.vector import AutoresetMode, SyncVectorEnv
except ImportError:
    raise MissingExtraError("gymnasium") from None

MakeGame = Callable[[], Any]
"""Makes a game, an environment of Gymnasium as `plb.learning.placement_game` describes it."""
FIRST_WEIGHTS, SEQUENCE, ACTIONS = range(3)
"""Numbers of the random streams of a training."""
Map = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]
"""Calls a function on each item, here or in other processes; results come in the order of the items."""
EVERY = 10
"""Iterations between two checkpoints."""
CHUNK = 512
"""Decisions of one forward and backward pass: enough to keep the processor busy, few enough for its caches."""


@attrs.frozen(eq=False)
class SequenceTask:
    """One job sequence to be played and learned from; it can be sent to another process."""

    make_game: MakeGame
    shape: ObservationShape
    settings: TrainingSettings
    weights: Mapping[str, Float32]
    """Weights of the network, by name."""
    iteration: int
    """Number of the iteration, from 1."""
    sequence: int
    """Number of the sequence in the iteration, from 0."""


@attrs.frozen(eq=False)
class SequenceResult:
    """The result of a job sequence."""

    gradient: Mapping[str, Float32]
    """Gradient of the loss, by name of the weight."""
    entropy: float
    """Mean entropy of the policy over the decisions, in nats."""
    totals: tuple[float, ...]
    """Sum of rewards of each trajectory."""
    decisions: int
    """Number of decisions in all trajectories."""


def train(
    settings: TrainingSettings,
    make_game: MakeGame,
    *,
    checkpoint: str | os.PathLike[str] | None = None,
    resume: bool = False,
    start: str | os.PathLike[str] | None = None,
    every: int = EVERY,
    resources: Sequence[str] = (),
    over: Map = map,
    progress: Callable[[CurveRow], object] | None = None,
) -> Checkpoint:
    """Train a policy; equal settings and games give equal weights, bit for bit, for any number of workers.

    This holds on processors of one kind and with one version of PyTorch; others may round differently. The result holds
    the policy and the state of its training; `LearnedPolicy` decides with it.

    Parameters
    ----------
    settings
        Settings of the training.
    make_game
        Makes a game, an environment of Gymnasium (`plb.learning.placement_game`); processes of `over` get it.
    checkpoint
        File that is written regularly, and at the end; None: none.
    resume
        Whether to continue from that file if it exists. For the same number of iterations the result is as without
        interruption; for another number, earlier iterations keep their weights of the entropy.
    start
        File of a policy with initial weights, instead of random ones.
    every
        Iterations from one checkpoint to the next.
    resources
        Names of the resources of the game, in their order; empty: unknown.
    over
        Plays the job sequences of an iteration: `map`, or the `map` of a pool of workers.
    progress
        Called with each row of the curve.

    Raises
    ------
    CheckpointError
        A file cannot be read, or has another training, network or game.
    DivergedError
        A weight, gradient or reward is no longer finite; the file has the last state that was written.
    """
    every = check_count("training", "every", every, low=1)
    state = _first_checkpoint(settings, ObservationShape.of(make_game().observation_space), resources)
    if resume and checkpoint is not None and Path(checkpoint).exists():
        state = resumed_checkpoint(checkpoint, settings, state.shape, state.resources)
    elif start is not None:
        state = _started(state, start)
    learner = Learner(state)
    for iteration in range(state.iteration + 1, settings.iterations + 1):
        row = learner.learn(make_game, over)
        if checkpoint is not None and (iteration % every == 0 or iteration == settings.iterations):
            write_checkpoint(checkpoint, learner.state())
        if progress is not None:
            progress(row)
    return learner.state()


class Learner:
    """A network and its optimiser, which learn one iteration after another from a state of their training."""

    def __init__(self, state: Checkpoint) -> None:
        self._begun = state
        self._curve = list(state.curve)
        self._network = state.network()
        self._optimiser = torch.optim.Adam(self._network.parameters(), lr=state.settings.learning_rate)
        assert state.optimiser is not None
        if state.optimiser:
            self._optimiser.load_state_dict(state.optimiser)

    def state(self) -> Checkpoint:
        """Return the present state of the training; further learning changes its tensors."""
        return attrs.evolve(
            self._begun,
            iteration=len(self._curve),
            weights=dict(self._network.state_dict()),
            optimiser=self._optimiser.state_dict(),
            curve=tuple(self._curve),
        )

    def learn(self, make_game: MakeGame, over: Map) -> CurveRow:
        """Play the job sequences of the next iteration, update the weights, and return its row of the curve."""
        settings, iteration = self._begun.settings, len(self._curve) + 1
        weights = {name: value.numpy() for name, value in self._network.state_dict().items()}
        task = partial(SequenceTask, make_game, self._begun.shape, settings, weights, iteration)
        results: list[SequenceResult] = list(over(learn_sequence, map(task, range(settings.sequences))))
        try:
            norm = self._update([result.gradient for result in results])
        except FloatingPointError as error:
            raise DivergedError(iteration, str(error)) from error
        self._curve.append(_row(iteration, results, norm))
        return self._curve[-1]

    def _update(self, gradients: Sequence[Mapping[str, Float32]]) -> float:
        """Update the weights by the mean of `gradients`, each by name, added in their order; return the mean's norm."""
        for name, parameter in self._network.named_parameters():
            total = gradients[0][name].copy()
            for gradient in gradients[1:]:
                total += gradient[name]
            parameter.grad = torch.from_numpy(total / np.float32(len(gradients)))
        limit = self._begun.settings.gradient_norm
        with one_thread():
            norm = float(torch.nn.utils.clip_grad_norm_(self._network.parameters(), limit))
            if not math.isfinite(norm):
                raise FloatingPointError("the gradient is")
            self._optimiser.step()
            if not all(parameter.isfinite().all() for parameter in self._network.parameters()):
                raise FloatingPointError("a weight is")
        return norm


def learn_sequence(task: SequenceTask) -> SequenceResult:
    """Play one job sequence and return its gradient; a worker's part of an iteration."""
    settings, key = task.settings, (task.iteration, task.sequence)
    randoms = [_stream(settings.seed, ACTIONS, *key, trajectory) for trajectory in range(settings.trajectories)]
    seed = int(_stream(settings.seed, SEQUENCE, *key).integers(2**63))
    network = empty_network(settings, task.shape)
    with one_thread():
        network.load_state_dict({name: torch.tensor(value) for name, value in task.weights.items()}, assign=True)
        try:
            played = play(network, task.make_game, seed, randoms)
        except FloatingPointError as error:
            raise DivergedError(task.iteration, str(error)) from error
        advantage = advantages(played, settings.discount)
        entropy = add_gradient(network, played, advantage, settings.entropy_in(task.iteration))
    gradient = {name: value.grad.numpy() for name, value in network.named_parameters()}
    return SequenceResult(gradient, entropy, tuple(played.totals.tolist()), len(played.actions))


def _row(iteration: int, results: Sequence[SequenceResult], norm: float) -> CurveRow:
    """Return the curve's row of an iteration; `results`: of its job sequences; `norm`: of their mean gradient."""
    totals = [total for result in results for total in result.totals]
    decisions = sum(result.decisions for result in results)
    return CurveRow(
        iteration=iteration,
        reward=math.fsum(totals) / len(totals),
        lowest=min(totals),
        highest=max(totals),
        entropy=math.fsum(result.entropy * result.decisions for result in results) / decisions,
        gradient_norm=norm,
        decisions=decisions,
    )


def _first_checkpoint(settings: TrainingSettings, shape: ObservationShape, resources: Sequence[str]) -> Checkpoint:
    """Return the checkpoint before the first iteration, with random weights; `resources`: names in the game."""
    weights = first_weights(empty_network(settings, shape), _stream(settings.seed, FIRST_WEIGHTS))
    return Checkpoint(settings, shape, iteration=0, weights=weights, optimiser={}, resources=resources)


def _started(state: Checkpoint, start: str | os.PathLike[str]) -> Checkpoint:
    """Return `state` with the weights of the policy in the file `start`."""
    weights = read_checkpoint(start).weights
    if {name: value.shape for name, value in weights.items()} != {n: v.shape for n, v in state.weights.items()}:
        raise CheckpointError(start, "is a policy of another network, or of a game of another shape")
    return attrs.evolve(state, weights=weights)


def _stream(seed: int, *path: int) -> np.random.Generator:
    """Return the random stream of the part of a training with the numbers `path`; no two parts share random numbers."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=path)))


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
            uniforms = [randoms[trajectory].random() for trajectory in playing.tolist()]
            actions = np.full(count, WAIT)
            actions[playing] = sampled(network(batch_of(seen)).numpy(), uniforms)
            observations, rewards, ended, truncated, _ = environments.step(actions)
            decisions.append((seen, actions[playing], rewards[playing], times[playing], playing))
            times, is_over = np.array(environments.get_attr("time")), ended | truncated
            ends[playing] = times[playing]
            playing = playing[~is_over[playing]]
            if is_over.any() and len(playing):
                observations, _ = environments.reset(seed=seeds, options={"reset_mask": is_over})
    observed, *columns = zip(*decisions, strict=True)
    actions, rewards, times, trajectory = map(np.concatenate, columns)
    if not np.isfinite(rewards).all():
        raise FloatingPointError("a reward of the game is")
    arrays = {name: np.concatenate([each[name] for each in observed]) for name in observed[0]}
    return Trajectories(arrays, actions, rewards, times, trajectory, ends)


def sampled(logits: Float32, uniforms: Sequence[float]) -> Int:
    """Return an action for each row of logits, (B, 1 + M), sampled at a uniform number in [0, 1) for each, (B,)."""
    if not np.isfinite(logits).all():
        raise FloatingPointError("a logit of the network is")
    exact = logits.astype(np.float64)
    likelihood = np.exp(exact - exact.max(axis=1, keepdims=True)).cumsum(axis=1)
    below = likelihood <= np.array(uniforms)[:, np.newaxis] * likelihood[:, -1:]
    return np.asarray(np.minimum(below.sum(axis=1), logits.shape[1] - 1))


def returns_to_go(played: Trajectories, discount: float) -> Float:
    """Return for each decision the sum of the rewards from it on, (K,); `discount`: factor of a time step."""
    returns = np.empty(len(played.rewards))
    for trajectory, end in enumerate(played.ends):
        decisions = np.flatnonzero(played.trajectory == trajectory)
        factors = discount ** np.diff(played.times[decisions], append=end).astype(np.float64)
        later = 0.0
        for decision, factor in zip(decisions[::-1], factors[::-1], strict=True):
            later = returns[decision] = played.rewards[decision] + factor * later
    return returns


def baselines(played: Trajectories, returns: Float) -> Float:
    """Return for each decision the mean return over all trajectories from its time step on, (K,).

    `returns`: (K,) return of each decision. A trajectory that decides nothing in a step counts with a return between
    its decisions before and after: a reward counts evenly over the time steps that it is for. From its end on it
    counts with 0.
    """
    times, step = np.unique(played.times, return_inverse=True)
    total = np.zeros(len(times))
    for trajectory, end in enumerate(played.ends):
        own = played.trajectory == trajectory
        decided, first = np.unique(played.times[own], return_index=True)
        total += np.interp(times, [*decided, max(end, decided[-1] + 1)], [*returns[own][first], 0.0])
    mean: Float = total[step] / len(played.ends)
    return mean


def advantages(played: Trajectories, discount: float) -> Float:
    """Return for each decision what its trajectory wins beyond the baseline, (K,), in standard deviations.

    `discount`: factor of a reward one time step later.
    """
    returns = returns_to_go(played, discount)
    advantage = returns - baselines(played, returns)
    deviation = advantage.std()
    # equal trajectories differ by rounding only
    if deviation <= 1e-9 * max(1.0, float(np.abs(returns).max())):
        return np.zeros_like(advantage)
    scaled: Float = advantage / deviation
    return scaled


def add_gradient(network: torch.nn.Module, played: Trajectories, advantage: Float, entropy: float) -> float:
    """Add the gradient of the loss to the gradients of the network, and return the mean entropy of its policy in nats.

    The loss is minus the mean of log probability times `advantage`, (K,), minus `entropy` times the mean entropy.
    """
    count = len(played.actions)
    actions, factors = torch.from_numpy(played.actions), torch.from_numpy(advantage.astype(np.float32))
    total_entropy = 0.0
    for begin in range(0, count, CHUNK):
        part = slice(begin, begin + CHUNK)
        batch = batch_of({name: array[part] for name, array in played.observations.items()})
        logarithms = torch.log_softmax(network(batch), 1)
        taken = logarithms.gather(1, actions[part].unsqueeze(1)).squeeze(1)
        entropy_sum = -(logarithms.exp() * logarithms).sum()
        loss = -((taken * factors[part]).sum() + entropy * entropy_sum) / count
        loss.backward()
        total_entropy += float(entropy_sum.detach())
    return total_entropy / count
