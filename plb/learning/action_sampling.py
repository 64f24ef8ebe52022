"""Sampling of actions from the logits of a policy: softmax, and the inverse of its distribution function."""

from __future__ import annotations

import numpy as np

from plb.array_types import Float32


class NotFiniteError(ArithmeticError):
    """A network or a game returned a number that is not finite; the message names it."""


def sampled_actions(logits: Float32, uniforms: list[float]) -> list[int]:
    """Return an action sampled from each row of logits, by the inverse of its distribution at a uniform number."""
    if not np.isfinite(logits).all():
        raise NotFiniteError("a logit of the network is")
    exact = logits.astype(np.float64)
    likelihood = np.exp(exact - exact.max(axis=1, keepdims=True)).cumsum(axis=1)
    below = likelihood <= np.array(uniforms)[:, np.newaxis] * likelihood[:, -1:]
    drawn: list[int] = np.minimum(below.sum(axis=1), logits.shape[1] - 1).tolist()
    return drawn
