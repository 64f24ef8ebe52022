"""Updates by PyTorch's Adam (Kingma and Ba, ICLR 2015), from arrays to arrays, so that a checkpoint holds it all."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import numpy as np

from plb.array_types import Float32
from plb.learning.action_sampling import NotFiniteError
from plb.learning.pytorch import one_thread, torch
from plb.learning.settings import TrainingSettings

FIRST, SECOND = "exp_avg", "exp_avg_sq"
"""What PyTorch calls the decaying means."""


@attrs.frozen(eq=False)
class OptimiserState:
    """What Adam keeps of earlier gradients.

    Parameters
    ----------
    first, second
        Decaying means of the gradients and of their squares, by weight.
    steps
        Updates so far.
    """

    first: Mapping[str, Float32]
    second: Mapping[str, Float32]
    steps: int = 0

    @classmethod
    def beginning(cls, weights: Mapping[str, Float32]) -> OptimiserState:
        """Return the state before the first update."""
        zeros = {name: np.zeros_like(value) for name, value in weights.items()}
        return cls(first=zeros, second=zeros)


@attrs.frozen(eq=False)
class Update:
    """The result of an update.

    Parameters
    ----------
    weights
        Weights by name.
    state
        Of the optimiser.
    gradient_norm
        Norm of the gradient before it was clipped.
    """

    weights: dict[str, Float32]
    state: OptimiserState
    gradient_norm: float


def updated(
    weights: Mapping[str, Float32], state: OptimiserState, steepest: Mapping[str, Float32], settings: TrainingSettings
) -> Update:
    """Return the weights after one step, or raise `NotFiniteError`; the arguments are not changed.

    Parameters
    ----------
    weights
        Weights by name.
    state
        Of the optimiser.
    steepest
        Gradient of the loss by weight.
    settings
        Say how long the step is, and how long the gradient may be.
    """
    parameters = {name: torch.nn.Parameter(torch.tensor(value)) for name, value in weights.items()}
    for name, parameter in parameters.items():
        parameter.grad = torch.tensor(steepest[name])
    optimiser = torch.optim.Adam(parameters.values(), lr=settings.learning_rate)
    _put_state(optimiser, list(parameters), state)
    with one_thread():
        norm = float(torch.nn.utils.clip_grad_norm_(parameters.values(), settings.gradient_norm))
        if not np.isfinite(norm):
            raise NotFiniteError("the gradient is")
        optimiser.step()
    moved = {name: parameter.detach().numpy() for name, parameter in parameters.items()}
    if not all(np.isfinite(value).all() for value in moved.values()):
        raise NotFiniteError("a weight is")
    return Update(moved, _state_of(optimiser, list(parameters), state.steps + 1), norm)


def _put_state(optimiser: torch.optim.Adam, names: list[str], state: OptimiserState) -> None:
    """Give an optimiser copies of a state, because it changes its own in place; it numbers weights in their order."""
    numbered = {
        number: {
            "step": torch.tensor(float(state.steps)),
            FIRST: torch.tensor(state.first[name]),
            SECOND: torch.tensor(state.second[name]),
        }
        for number, name in enumerate(names)
    }
    optimiser.load_state_dict({**optimiser.state_dict(), "state": numbered})


def _state_of(optimiser: torch.optim.Adam, names: list[str], steps: int) -> OptimiserState:
    """Return the state of an optimiser under the names of the weights."""
    numbered = optimiser.state_dict()["state"]
    first, second = (
        {name: numbered[number][kind].numpy() for number, name in enumerate(names)} for kind in (FIRST, SECOND)
    )
    return OptimiserState(first=first, second=second, steps=steps)
