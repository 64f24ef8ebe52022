"""Files with a policy and the state of its training, and whether a training can be resumed from one.

A file has plain tensors, numbers and text, never code: the `state_dict` of the network and of the optimiser, and what
is needed to make both.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from plb.errors import CheckpointError, InvalidValueError, PlbError
from plb.learning.networks import ImageNetwork, MachineScorer, StateDict, empty_network, torch
from plb.learning.placement_game import ObservationShape
from plb.learning.settings import TrainingSettings
from plb.validation import check_names

FORMAT, VERSION = "plb policy", 3


@attrs.frozen
class CurveRow:
    """One iteration of a training."""

    iteration: int
    """Its number; the first is 1."""
    reward: float
    """Mean sum of rewards over its trajectories."""
    lowest: float
    """Least sum of rewards."""
    highest: float
    """Greatest sum of rewards."""
    entropy: float
    """Mean entropy of the policy over its decisions, in nats."""
    gradient_norm: float
    """Norm of the gradient before it is shortened."""
    decisions: int
    """Number of decisions in its trajectories."""


def _plain(names: object) -> tuple[str, ...]:
    """Return the checked names of resources as plain `str`, because a checkpoint's file holds no other type."""
    return tuple(map(str, check_names("policy", "resources", names)))


@attrs.frozen(eq=False)
class Checkpoint:
    """A policy and the state of its training after an iteration."""

    settings: TrainingSettings
    shape: ObservationShape
    """Size of the observations."""
    iteration: int
    """Number of the last completed iteration; 0: none."""
    weights: StateDict
    """The `state_dict` of the network."""
    optimiser: dict[str, Any] | None
    """The `state_dict` of the optimiser; None: the policy alone is known, and its training cannot be resumed."""
    curve: tuple[CurveRow, ...] = ()
    """A row for each iteration; empty if only the policy is known."""
    resources: tuple[str, ...] = attrs.field(default=(), converter=_plain)
    """Names of the resources of the game, in their order; empty: unknown."""

    def __attrs_post_init__(self) -> None:
        if self.resources and len(self.resources) != self.shape.resources:
            allowed = f"{self.shape.resources} names, one for each resource of the game, or none"
            raise InvalidValueError("policy", "resources", self.resources, allowed)

    @property
    def digest(self) -> str:
        """SHA-256 of the weights: equal for policies that decide equally."""
        return weights_digest(self.weights)

    def network(self) -> ImageNetwork | MachineScorer:
        """Return a network with a copy of the weights."""
        network = empty_network(self.settings, self.shape)
        network.load_state_dict({name: value.clone() for name, value in self.weights.items()}, assign=True)
        return network

    def policy_alone(self) -> Checkpoint:
        """Return the policy alone: its file is a third as large, and its training cannot be resumed."""
        return attrs.evolve(self, optimiser=None, curve=())


def weights_digest(weights: StateDict) -> str:
    """Return the SHA-256 of the names, shapes and bytes of weights, in hexadecimal digits, in the order of names."""
    digest = hashlib.sha256()
    for name in sorted(weights):
        digest.update(f"{name} {tuple(weights[name].shape)}\n".encode())
        digest.update(weights[name].numpy().astype("<f4").tobytes())
    return digest.hexdigest()


def content_digest(content: Mapping[str, Any]) -> str:
    """Return the SHA-256 of everything in a file but its digest: numbers, texts and tensors, in hexadecimal."""
    without_digest = {name: value for name, value in content.items() if name != "digest"}
    text = json.dumps(
        without_digest, sort_keys=True, allow_nan=False, default=lambda tensor: weights_digest({"": tensor})
    )
    return hashlib.sha256(text.encode()).hexdigest()


def write_checkpoint(path: str | os.PathLike[str], checkpoint: Checkpoint) -> None:
    """Write a checkpoint to a file; at any time readers find the complete former or new file."""
    content = {"format": FORMAT, "version": VERSION, **attrs.asdict(checkpoint)}
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
        if content.pop("digest") != content_digest(content):
            raise CheckpointError(path, "is damaged: it does not hold what was written")
        content["settings"] = TrainingSettings(**content["settings"])
        content["shape"] = ObservationShape(**content["shape"])
        content["curve"] = tuple(CurveRow(**row) for row in content["curve"])
        checkpoint = Checkpoint(**{name: value for name, value in content.items() if name not in ("format", "version")})
        checkpoint.network()
    except CheckpointError:
        raise
    except PlbError as error:
        raise CheckpointError(path, f"is damaged: {error}") from error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CheckpointError(path, "is damaged: it lacks what a policy consists of") from error
    except RuntimeError as error:  # of PyTorch
        raise CheckpointError(path, "is damaged: its weights are not those of its network") from error
    return checkpoint


def resumed_checkpoint(
    path: str | os.PathLike[str], settings: TrainingSettings, shape: ObservationShape, resources: tuple[str, ...]
) -> Checkpoint:
    """Return the checkpoint in a file to resume a training with these settings, game and resources.

    Raise `CheckpointError` if any differs from the checkpoint's, the number of iterations aside.
    """
    state = read_checkpoint(path)
    if state.optimiser is None:
        raise CheckpointError(path, "holds a policy alone, whose training cannot be resumed")
    if attrs.evolve(state.settings, iterations=settings.iterations) != settings:
        raise CheckpointError(path, "is of a training with other settings, which cannot be resumed with these")
    if state.shape != shape:
        raise CheckpointError(path, "is of a training with a game of another shape")
    if state.resources != resources:
        raise CheckpointError(path, f"is of a training with other resources: {state.resources}, not {resources}")
    if state.iteration > settings.iterations:
        raise CheckpointError(path, f"has {state.iteration} iterations already, {settings.iterations} are asked for")
    return attrs.evolve(state, settings=settings)


def _content(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the contents of a file by name; raise `CheckpointError` unless it is a checkpoint of this version."""
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
