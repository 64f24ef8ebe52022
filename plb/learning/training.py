"""Training a policy by REINFORCE ([4], "Policy Network"): workers play, and their gradients are combined."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import attrs
import numpy as np

from plb.array_types import Float32
from plb.errors import CheckpointError, DivergedError
from plb.learning.action_sampling import NotFiniteError
from plb.learning.checkpoints import (
    Checkpoint,
    CurveRow,
    check_resources,
    read_checkpoint,
    resumed_checkpoint,
    write_checkpoint,
)
from plb.learning.networks import empty_network, first_weights, set_weights
from plb.learning.optimiser import OptimiserState, updated
from plb.learning.placement_game import ObservationShape, PlacementGame
from plb.learning.pytorch import one_thread
from plb.learning.reinforce import Gradient, advantages, gradient
from plb.learning.settings import TrainingSettings
from plb.learning.trajectories import play
from plb.validation import check_count

MakeGame = Callable[[], PlacementGame]
FIRST_WEIGHTS, SEQUENCE, ACTIONS = range(3)
"""The random streams of a training."""
EVERY = 10
"""Iterations between two checkpoints."""


class Over(Protocol):
    """Calls a function on each item, here or in other processes; results come in the order of the items."""

    def __call__(self, function: Callable[[Any], Any], items: Iterable[Any], /) -> Iterable[Any]:
        """Return the results."""
        ...


@attrs.frozen(eq=False)
class SequenceTask:
    """One job sequence to be played and learned from; it can be sent to another process.

    Parameters
    ----------
    make_game
        Makes the games.
    settings
        Of the training.
    weights
        Of the network, by name.
    iteration, sequence
        Iteration, from 1, and sequence, from 0.
    """

    make_game: MakeGame
    settings: TrainingSettings
    weights: Mapping[str, Float32]
    iteration: int
    sequence: int


@attrs.frozen(eq=False)
class SequenceResult:
    """The result of a job sequence.

    Parameters
    ----------
    gradient
        Of the loss, with the mean entropy.
    totals
        Sum of rewards of each trajectory.
    decisions
        Number of decisions.
    """

    gradient: Gradient
    totals: tuple[float, ...]
    decisions: int


def train(
    settings: TrainingSettings,
    make_game: MakeGame,
    *,
    checkpoint: str | os.PathLike[str] | None = None,
    resume: bool = False,
    start: str | os.PathLike[str] | None = None,
    every: int = EVERY,
    resources: Sequence[str] = (),
    over: Over = map,
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
        Makes a game; where `over` calls other processes it is sent there.
    checkpoint
        File that is written regularly, and at the end; None: none.
    resume
        Whether to continue from that file if it exists. For the same number of iterations the result is that of an
        uninterrupted training; for another number, earlier iterations keep their weights of the entropy.
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
    shape = make_game().shape
    names = check_resources(resources, shape)
    if resume and checkpoint is not None and Path(checkpoint).exists():
        state = resumed_checkpoint(checkpoint, settings, shape, names)
    else:
        state = attrs.evolve(_beginning(settings, shape, start), resources=names)
    for iteration in range(state.iteration + 1, settings.iterations + 1):
        state = _next(state, make_game, over)
        if checkpoint is not None and (iteration % every == 0 or iteration == settings.iterations):
            write_checkpoint(checkpoint, state)
        if progress is not None:
            progress(state.curve[-1])
    return state


def learn_sequence(task: SequenceTask) -> SequenceResult:
    """Play one job sequence and return its gradient; a worker's part of an iteration."""
    settings = task.settings
    key = (task.iteration, task.sequence)
    games = [task.make_game() for _ in range(settings.trajectories)]
    network = empty_network(settings.network, games[0].shape, settings.hidden)
    set_weights(network, task.weights)
    randoms = [_stream(settings.seed, ACTIONS, *key, one) for one in range(settings.trajectories)]
    seed = int(_stream(settings.seed, SEQUENCE, *key).integers(2**63))
    with one_thread():
        try:
            played = play(network, games, seed, randoms)
        except NotFiniteError as error:
            raise DivergedError(task.iteration, str(error)) from error
        found = gradient(network, played, advantages(played, settings.discount), settings.entropy_in(task.iteration))
    return SequenceResult(found, tuple(played.totals.tolist()), len(played.actions))


def _next(state: Checkpoint, make_game: MakeGame, over: Over) -> Checkpoint:
    """Return the state after one more iteration."""
    settings, iteration = state.settings, state.iteration + 1
    tasks = [
        SequenceTask(make_game, settings, state.weights, iteration, sequence) for sequence in range(settings.sequences)
    ]
    results: list[SequenceResult] = list(over(learn_sequence, tasks))
    assert state.optimiser is not None
    try:
        update = updated(state.weights, state.optimiser, _mean(results), settings)
    except NotFiniteError as error:
        raise DivergedError(iteration, str(error)) from error
    return attrs.evolve(
        state,
        iteration=iteration,
        weights=update.weights,
        optimiser=update.state,
        curve=(*state.curve, _row(iteration, results, update.gradient_norm)),
    )


def _mean(results: Sequence[SequenceResult]) -> dict[str, Float32]:
    """Return the mean of the gradients, added in the order of the sequences."""
    total = {name: value.copy() for name, value in results[0].gradient.steepest.items()}
    for result in results[1:]:
        for name, value in result.gradient.steepest.items():
            total[name] += value
    return {name: value / np.float32(len(results)) for name, value in total.items()}


def _row(iteration: int, results: Sequence[SequenceResult], norm: float) -> CurveRow:
    totals = [total for result in results for total in result.totals]
    decisions = sum(result.decisions for result in results)
    return CurveRow(
        iteration=iteration,
        reward=math.fsum(totals) / len(totals),
        lowest=min(totals),
        highest=max(totals),
        entropy=math.fsum(result.gradient.entropy * result.decisions for result in results) / decisions,
        gradient_norm=norm,
        decisions=decisions,
    )


def _beginning(settings: TrainingSettings, shape: ObservationShape, start: str | os.PathLike[str] | None) -> Checkpoint:
    """Return the state before the first iteration."""
    network = empty_network(settings.network, shape, settings.hidden)
    weights = first_weights(network, _stream(settings.seed, FIRST_WEIGHTS))
    if start is not None:
        learned = read_checkpoint(start)
        shapes = {name: value.shape for name, value in weights.items()}
        if {name: value.shape for name, value in learned.weights.items()} != shapes:
            raise CheckpointError(start, "is a policy of another network, or of a game of another shape")
        weights = learned.weights
    optimiser = OptimiserState.beginning(weights)
    return Checkpoint(settings=settings, shape=shape, iteration=0, weights=weights, optimiser=optimiser, curve=())


def _stream(seed: int, *path: int) -> np.random.Generator:
    """Return the random stream of a part of the training; no two parts share numbers."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=path)))
