"""A trained policy for decisions."""

from __future__ import annotations

import os

import numpy as np

from plb.array_types import Bool, Float
from plb.errors import ConflictError, InvalidValueError
from plb.learning.checkpoints import Checkpoint, read_checkpoint
from plb.learning.networks import batch_of, empty_network, set_weights
from plb.learning.placement_game import WAIT, Observation, ObservationShape, array_shapes
from plb.learning.pytorch import one_thread, torch
from plb.learning.settings import SCORER, TrainingSettings

TIE = 1e-5
"""Logits with a smaller difference are equal: the last bits of a sum depend on its position in a matrix."""


class LearnedPolicy:
    """Chooses the machine of the next job.

    Parameters
    ----------
    checkpoint
        The trained policy.
    """

    def __init__(self, checkpoint: Checkpoint) -> None:
        self.settings: TrainingSettings = checkpoint.settings
        self.shape: ObservationShape = checkpoint.shape
        self.resources: tuple[str, ...] = checkpoint.resources
        """Names of the resources of its game, in their order; empty: unknown."""
        self.digest = checkpoint.digest
        """SHA-256 of the weights: equal for policies that decide equally."""
        self._network = empty_network(self.settings.network, self.shape, self.settings.hidden)
        set_weights(self._network, checkpoint.weights)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> LearnedPolicy:
        """Return the policy in a file, or raise `CheckpointError`."""
        return cls(read_checkpoint(path))

    @property
    def any_machines(self) -> bool:
        """Whether it accepts any number of machines, not only that of the training."""
        return self.settings.network == SCORER

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
        logits = self._logits(observation, allowed, may_wait)
        return int(np.flatnonzero(logits >= logits.max() - TIE)[0])

    def probabilities(self, observation: Observation, allowed: Bool | None = None, *, may_wait: bool = True) -> Float:
        """Return the probability of each action, (1 + M,); what is not allowed has none. Arguments as of `act`."""
        logits = self._logits(observation, allowed, may_wait)
        likelihood = np.exp(logits - logits.max())
        return np.asarray(likelihood / likelihood.sum(), np.float64)

    def _logits(self, observation: Observation, allowed: Bool | None, may_wait: bool) -> Float:
        """Return the logit of each action, (1 + M,), minus infinity where it is not allowed."""
        self._check(observation)
        machines = len(observation.occupied)
        may = np.full(1 + machines, True)
        may[WAIT] = may_wait
        if allowed is not None:
            if np.shape(allowed) != (machines,):
                raise InvalidValueError(
                    "policy", "allowed", np.shape(allowed), f"one truth value for each of {machines}"
                )
            may[1:] = allowed
        if not may.any():
            raise ConflictError("policy: no machine is allowed, and waiting neither")
        arrays = Observation(*(np.array(array, dtype=np.float32)[np.newaxis] for array in observation))
        with torch.inference_mode(), one_thread():
            logits = self._network(batch_of(arrays)).numpy()[0].astype(np.float64)
        return np.where(may, logits, -np.inf)

    def _check(self, observation: Observation) -> None:
        """Raise `InvalidValueError` if this is not what the policy has learned to see."""
        machines = np.shape(observation.occupied)[0]
        if machines != self.shape.machines and not self.any_machines:
            allowed = f"{self.shape.machines}, with which this policy was trained; one that scores machines takes any"
            raise InvalidValueError("observation", "machines", machines, allowed)
        for name, array, shape in zip(
            Observation._fields, observation, array_shapes(self.shape, machines), strict=True
        ):
            if np.shape(array) != shape:
                raise InvalidValueError("observation", name, np.shape(array), f"an array of shape {shape}")
