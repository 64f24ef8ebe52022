"""The score that combines the five terms into one energy (docs/terms/score.md)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from plb.array_types import Float
from plb.compiler import kernel
from plb.settings.config import Combination, PlbConfig
from plb.state.arrays import TENTHS

UNITS = 2**20
"""Units of an overload of 1 in one repetition, where the sum of peaks is twice the threshold."""

# Positions in Problem.weights
W_FAILOVERS, W_IMBALANCE, W_FRAGMENTATION, PRODUCT_FORM, PRODUCT_OFFSET, REPETITIONS, W_LOCAL = range(7)
PLAIN_DEVIATION, TENTHS_OF_MOVE, FLOOR_OF_DEVIATION, W_OVERLOAD = range(7, 11)

LEAST_DEVIATION = 0.001
"""Keeps the first factor of the product form above 0 (docs/terms/score.md)."""


class TermValues(NamedTuple):
    """The value of each term, in the order of the tally: whole numbers where the sums are."""

    movement: int
    """m in tenths."""
    imbalance: float
    fragmentation: float
    expected_failovers: int
    """Repetitions in violation, summed over the nodes: V = violations / K."""
    expected_overload: int
    """O in units, summed over nodes and repetitions."""


def weights_of(
    config: PlbConfig, *, replicas: int, repetitions: int, plain_deviation: bool = True, sampled: bool = True
) -> Float:
    """Return `Problem.weights`, (11,), for a search over `replicas` replicas.

    If costs are ignored, moves contribute nothing and the second factor of the product form is 1.

    Parameters
    ----------
    repetitions
        Violations of a node that certainly fails: K, or the unit of the estimators; 0: violations are not estimated.
    sampled
        Whether repetitions are sampled; without them there is no overload.
    """
    weights = np.zeros(11)
    weights[W_FAILOVERS] = config.w_failovers if repetitions else 0.0
    weights[W_OVERLOAD] = config.w_overload if repetitions and sampled else 0.0
    weights[W_IMBALANCE] = config.w_imbalance
    weights[W_FRAGMENTATION] = config.w_fragmentation
    weights[PRODUCT_FORM] = config.combination is Combination.SERVICE_FABRIC
    weights[PRODUCT_OFFSET] = replicas + config.move_cost_offset
    weights[REPETITIONS] = max(1, repetitions)
    weights[W_LOCAL] = config.local_domain_weight
    weights[PLAIN_DEVIATION] = plain_deviation
    weights[TENTHS_OF_MOVE] = np.inf if config.ignore_cost_in_scoring else TENTHS
    weights[FLOOR_OF_DEVIATION] = LEAST_DEVIATION
    if config.ignore_cost_in_scoring and weights[PRODUCT_FORM]:
        weights[[W_FAILOVERS, W_OVERLOAD, FLOOR_OF_DEVIATION]], weights[PRODUCT_OFFSET] = 0.0, 1.0
    return weights


@kernel(inline=True)
def energy_of(weights: Float, values: TermValues) -> float:
    """Return the energy of a configuration.

    additive: ``E = (m + w_f·V + w_O·O) + w_I·I + w_F·F``; service_fabric: ``E = (I + w_F·F + 0.001)·(replicas +
    move_cost_offset ± (m + w_f·V + w_O·O))``, with minus if the first factor is negative. With `ignore_cost_in_scoring`
    the first form has no m, and the second is ``E = I + w_F·F``.

    Parameters
    ----------
    weights
        (11,) see `weights_of`.
    """
    first = values.movement / weights[TENTHS_OF_MOVE]
    first += weights[W_FAILOVERS] * (values.expected_failovers / weights[REPETITIONS])
    first += weights[W_OVERLOAD] * (values.expected_overload / (UNITS * weights[REPETITIONS]))
    second = weights[W_FRAGMENTATION] * values.fragmentation
    if weights[PRODUCT_FORM] > 0.0:
        factor = values.imbalance + second + weights[FLOOR_OF_DEVIATION]
        if factor < 0.0:
            first = -first  # moves must also cost where packing makes the factor negative
        return float(factor * (weights[PRODUCT_OFFSET] + first))
    return float(first + weights[W_IMBALANCE] * values.imbalance + second)
