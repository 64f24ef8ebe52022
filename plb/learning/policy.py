"""A trained policy for decisions."""

from __future__ import annotations

import os

import numpy as np

from plb.array_types import Bool, Float
from plb.errors import ConflictError, InvalidValueError
from plb.learning.checkpoints import Checkpoint, read_checkpoint
from plb.learning.networks import batch_of, one_thread, torch
from plb.learning.placement_game import WAIT, Observation, ObservationShape
from plb.learning.settings import IMAGE

TIE = 1e-5
"""Logits with a smaller difference are equal: the last bits of a sum depend on its position in a matrix."""


class LearnedPolicy:
    """Chooses the machine of the next job by the network of a checkpoint."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self.settings = checkpoint.settings
        self.shape: ObservationShape = checkpoint.shape
        self.resources: tuple[str, ...] = checkpoint.resources
        """Names of the resources of its game, in their order; empty: unknown."""
        self.digest = checkpoint.digest
        """SHA-256 of the weights: equal for policies that decide equally."""
        self._network = checkpoint.network()

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> LearnedPolicy:
        """Return the policy in a file, or raise `CheckpointError`."""
        return cls(read_checkpoint(path))

    def act(self, observation: Observation, allowed: Bool | None = None, *, may_wait: bool = True) -> int:
        """Return the most likely of the allowed actions, of equal ones the lowest.

        Parameters
        ----------
        observation
            What there is to see.
        allowed
            Whether each machine may be chosen, (M,); None: all may.
        may_wait
            Whether the job may be left waiting.
        """
        self._check(observation)
        machines = len(observation.occupied)
        is_allowed = np.full(1 + machines, True)
        is_allowed[WAIT] = may_wait
        if allowed is not None:
            if np.shape(allowed) != (machines,):
                expected = f"one truth value for each of {machines}"
                raise InvalidValueError("policy", "allowed", np.shape(allowed), expected)
            is_allowed[1:] = allowed
        if not is_allowed.any():
            raise ConflictError("policy: no machine is allowed, and waiting neither")
        logits = np.where(is_allowed, self.logits(observation), -np.inf)
        return int(np.flatnonzero(logits >= logits.max() - TIE)[0])

    def logits(self, observation: Observation) -> Float:
        """Return the logit of each action, (1 + M,): waiting, then each of M machines."""
        arrays = {name: np.array([array], np.float32) for name, array in observation._asdict().items()}
        with torch.inference_mode(), one_thread():
            return np.asarray(self._network(batch_of(arrays)).numpy()[0], np.float64)

    def _check(self, observation: Observation) -> None:
        """Raise `InvalidValueError` if this is not what the policy has learned to see."""
        machines = np.shape(observation.occupied)[0]
        if machines != self.shape.machines and self.settings.network == IMAGE:
            allowed = f"{self.shape.machines}, with which this policy was trained; one that scores machines takes any"
            raise InvalidValueError("observation", "machines", machines, allowed)
        shapes = self.shape.arrays(machines)
        for name, array in observation._asdict().items():
            if np.shape(array) != shapes[name]:
                raise InvalidValueError("observation", name, np.shape(array), f"an array of shape {shapes[name]}")
