"""Files with a policy and the state of its training, and whether a training can be resumed from one.

A file has plain tensors, numbers and text, never code.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from plb.array_types import Float32
from plb.errors import CheckpointError, InvalidValueError, PlbError
from plb.learning.networks import empty_network
from plb.learning.optimiser import OptimiserState
from plb.learning.placement_game import ObservationShape
from plb.learning.pytorch import torch
from plb.learning.settings import TrainingSettings, count_field, number_field
from plb.validation import check_names

FORMAT, VERSION = "plb policy", 2
DESCRIBED = ("settings", "shape", "resources", "iteration", "steps", "curve")
"""The numbers and texts of a file."""
WEIGHTS, MOMENTS = "weights", ("first", "second")
"""The tensors of a file: those of a policy, and those of its optimiser."""
CURVE = "curve"


@attrs.frozen
class CurveRow:
    """One iteration of a training.

    Parameters
    ----------
    iteration
        Its number; the first is 1.
    reward, lowest, highest
        Mean, least and greatest sum of rewards over its trajectories.
    entropy
        Mean entropy of the policy over its decisions, in nats.
    gradient_norm
        Before it is shortened.
    decisions
        Number of resources.
    """

    iteration: int = count_field(CURVE)
    reward: float = number_field(CURVE, low=-math.inf)
    lowest: float = number_field(CURVE, low=-math.inf)
    highest: float = number_field(CURVE, low=-math.inf)
    entropy: float = number_field(CURVE, low=-math.inf)
    gradient_norm: float = number_field(CURVE, low=-math.inf)
    decisions: int = count_field(CURVE)


def check_resources(names: object, shape: ObservationShape) -> tuple[str, ...]:
    """Return the names of the resources of a game; raise an error if they are not as many as in its shape, or none."""
    found = _plain(names)
    if found and len(found) != shape.resources:
        allowed = f"{shape.resources} names, one for each resource of the game, or none"
        raise InvalidValueError("policy", "resources", found, allowed)
    return found


def _plain(names: object) -> tuple[str, ...]:
    """Return names as plain text, because a file has no other type."""
    return tuple(map(str, check_names("policy", "resources", names)))


@attrs.frozen(eq=False)
class Checkpoint:
    """A policy and the state of its training after an iteration.

    Parameters
    ----------
    settings
        Of the training.
    shape
        Of the observations.
    iteration
        The last one that is done; 0: none.
    weights
        Of the network, by name.
    optimiser
        What comes from earlier gradients; None: the policy alone is known, and its training cannot be resumed.
    curve
        A row for each iteration; empty if only the policy is known.
    resources
        Names of the resources of the game, in their order; empty: unknown.
    """

    settings: TrainingSettings
    shape: ObservationShape
    iteration: int
    weights: dict[str, Float32]
    optimiser: OptimiserState | None
    curve: tuple[CurveRow, ...]
    resources: tuple[str, ...] = attrs.field(default=(), converter=_plain)

    def __attrs_post_init__(self) -> None:
        check_resources(self.resources, self.shape)

    @property
    def digest(self) -> str:
        """SHA-256 of the weights: equal for policies that decide equally."""
        return weights_digest(self.weights)

    def policy_alone(self) -> Checkpoint:
        """Return the policy alone: its file is a third as large, and its training cannot be resumed."""
        return attrs.evolve(self, optimiser=None, curve=())


def weights_digest(weights: Mapping[str, Float32]) -> str:
    """Return the SHA-256 of names, shapes and bytes, in hexadecimal digits; the order of the names does not matter."""
    digest = hashlib.sha256()
    for name in sorted(weights):
        digest.update(f"{name} {weights[name].shape}\n".encode())
        digest.update(np.ascontiguousarray(weights[name], dtype="<f4").tobytes())
    return digest.hexdigest()


def content_digest(content: Mapping[str, Any]) -> str:
    """Return the SHA-256 of all contents of a file: numbers, texts and tensors."""
    described = {name: content[name] for name in DESCRIBED}
    described["tensors"] = weights_digest({name: value.numpy() for name, value in content["tensors"].items()})
    text = json.dumps(described, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def write_checkpoint(path: str | os.PathLike[str], checkpoint: Checkpoint) -> None:
    """Write a checkpoint; readers find the former file or the new one, both whole."""
    tensors = _tensors(checkpoint)
    content = {
        "format": FORMAT,
        "version": VERSION,
        "settings": attrs.asdict(checkpoint.settings),
        "shape": attrs.asdict(checkpoint.shape),
        "resources": list(checkpoint.resources),
        "iteration": checkpoint.iteration,
        "steps": None if checkpoint.optimiser is None else checkpoint.optimiser.steps,
        "curve": [attrs.asdict(row) for row in checkpoint.curve],
        "tensors": {name: torch.from_numpy(value) for name, value in tensors.items()},
    }
    content["digest"] = content_digest(content)
    memory = io.BytesIO()
    torch.save(content, memory)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    partial = Path(path).with_name(f"{Path(path).name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as file:
            file.write(memory.getbuffer())
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def read_checkpoint(path: str | os.PathLike[str]) -> Checkpoint:
    """Return the checkpoint in a file, or raise `CheckpointError`; no code in the file is ever run."""
    content = _content(path)
    try:
        # before anything is made of it: a shape of another size could take all memory
        if content["digest"] != content_digest(content):
            raise CheckpointError(path, "is damaged: it does not hold what was written")
        checkpoint = _checkpoint(content)
        expected = _expected_shapes(checkpoint)
    except CheckpointError:
        raise
    except PlbError as error:
        raise CheckpointError(path, f"is damaged: {error}") from error
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise CheckpointError(path, "is damaged: it lacks what a policy consists of") from error
    tensors = _tensors(checkpoint)
    same = {name: tuple(value.shape) for name, value in content["tensors"].items()} == expected
    finite = all(value.dtype == np.float32 and np.isfinite(value).all() for value in tensors.values())
    if not same or not finite:
        raise CheckpointError(path, "is damaged: its weights are not those of its network, or not finite")
    if not _agree(checkpoint):
        raise CheckpointError(path, "is damaged: its numbers of iterations contradict one another")
    return checkpoint


def resumed_checkpoint(
    path: str | os.PathLike[str], settings: TrainingSettings, shape: ObservationShape, resources: tuple[str, ...]
) -> Checkpoint:
    """Return the checkpoint in a file to resume a training with these settings and this game.

    Raises
    ------
    CheckpointError
        The file cannot be read, or it is of another training: only the number of iterations may differ.
    """
    found = read_checkpoint(path)
    if found.optimiser is None:
        raise CheckpointError(path, "holds a policy alone, whose training cannot be resumed")
    if attrs.evolve(found.settings, iterations=settings.iterations) != settings:
        raise CheckpointError(path, "is of a training with other settings, which cannot be resumed with these")
    if found.shape != shape:
        raise CheckpointError(path, "is of a training with a game of another shape")
    if found.resources != resources:
        raise CheckpointError(path, f"is of a training with other resources: {found.resources}, not {resources}")
    if found.iteration > settings.iterations:
        raise CheckpointError(path, f"has {found.iteration} iterations already, {settings.iterations} are asked for")
    return attrs.evolve(found, settings=settings)


def _content(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the contents of a file if it is a checkpoint of this version."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise CheckpointError(path, f"cannot be read: {error.strerror}") from error
    except ValueError as error:  # no system has a file of such a name
        raise CheckpointError(path, f"cannot be read: {error}") from error
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            content = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    except Exception as error:  # PyTorch raises errors without a common class for other files
        raise CheckpointError(path, "is damaged, or no policy") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise CheckpointError(path, "is no policy")
    if content.get("version") != VERSION:
        raise CheckpointError(path, f"is of version {content.get('version')!r}; this program reads version {VERSION}")
    return content


def _checkpoint(content: Mapping[str, Any]) -> Checkpoint:
    """Return the contents of a file; any exception means that it is damaged."""
    tensors = {name: np.array(value.numpy()) for name, value in content["tensors"].items()}
    optimiser = None
    if content["steps"] is not None:
        first, second = (_under(part, tensors) for part in MOMENTS)
        optimiser = OptimiserState(first=first, second=second, steps=_whole(content["steps"]))
    return Checkpoint(
        settings=TrainingSettings(**content["settings"]),
        shape=ObservationShape(**content["shape"]),
        iteration=_whole(content["iteration"]),
        weights=_under(WEIGHTS, tensors),
        optimiser=optimiser,
        curve=tuple(CurveRow(**row) for row in content["curve"]),
        resources=content["resources"],
    )


def _expected_shapes(checkpoint: Checkpoint) -> dict[str, tuple[int, ...]]:
    """Return the shapes of all tensors of such a checkpoint, by name."""
    network = empty_network(checkpoint.settings.network, checkpoint.shape, checkpoint.settings.hidden)
    parts = (WEIGHTS,) if checkpoint.optimiser is None else (WEIGHTS, *MOMENTS)
    return {f"{part}/{name}": tuple(value.shape) for part in parts for name, value in network.state_dict().items()}


def _agree(checkpoint: Checkpoint) -> bool:
    """Return whether there are as many updates and rows as iterations, or none with a policy alone."""
    if checkpoint.optimiser is None:
        return checkpoint.iteration >= 0 and not checkpoint.curve
    return checkpoint.optimiser.steps == checkpoint.iteration == len(checkpoint.curve)


def _tensors(checkpoint: Checkpoint) -> dict[str, Float32]:
    """Return all tensors by part and name, as in a file."""
    parts: dict[str, Mapping[str, Float32]] = {WEIGHTS: checkpoint.weights}
    if checkpoint.optimiser is not None:
        parts |= zip(MOMENTS, (checkpoint.optimiser.first, checkpoint.optimiser.second), strict=True)
    return {f"{part}/{name}": value for part, values in parts.items() for name, value in values.items()}


def _under(part: str, tensors: Mapping[str, Float32]) -> dict[str, Float32]:
    return {name.partition("/")[2]: value for name, value in tensors.items() if name.startswith(f"{part}/")}


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(value)
    return value
