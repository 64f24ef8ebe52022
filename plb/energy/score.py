"""What a term consists of besides its kernels, and the score that combines the five terms (docs/terms/score.md).

Each file of a term has one description, and `plb.energy.terms` lists them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import attrs
import numpy as np

from plb.array_types import NOWHERE
from plb.compiler import kernel
from plb.constraints.description import NamedSolution
from plb.model.move import Phase, Reason
from plb.settings.config import Combination, PlbConfig
from plb.state.arrays import TENTHS, Problem, Proposal, Solution, Weights

UNITS = 2**20
"""Units of an overload of 1 in one repetition, where the sum of peaks is twice the threshold."""

LEAST_DEVIATION = 0.001
"""Keeps the first factor of the product form above 0 (docs/terms/score.md)."""


class TermValues(NamedTuple):
    """The value of each term; counts and sums of whole numbers are whole numbers."""

    movement: int
    """m in tenths."""
    imbalance: float
    fragmentation: float
    expected_failovers: int
    """V in units of `Weights.repetitions`, summed over the nodes."""
    expected_overload: int
    """O in `UNITS`, summed over nodes and repetitions."""


def weights_of(
    config: PlbConfig,
    *,
    replicas: int,
    repetitions: int,
    columns: int,
    plain_deviation: bool = True,
    sampled: bool = True,
) -> Weights:
    """Return `Problem.weights` for a search over `replicas` replicas.

    If costs are ignored, moves contribute nothing and the second factor of the product form is 1. `repetitions`:
    `Weights.repetitions`, 0 if violations are not estimated; `columns`, `plain_deviation`: as in `Weights`; `sampled`:
    whether the columns are sampled repetitions; if not, there is no overload.
    """
    product_form = config.combination is Combination.SERVICE_FABRIC
    without_costs = config.ignore_cost_in_scoring and product_form
    estimated = repetitions > 0 and not without_costs
    return Weights(
        expected_failovers=float(config.w_failovers) if estimated else 0.0,
        expected_overload=float(config.w_overload) if estimated and sampled else 0.0,
        imbalance=float(config.w_imbalance),
        fragmentation=float(config.w_fragmentation),
        product_form=product_form,
        product_offset=_product_offset(config, replicas),
        least_deviation=0.0 if without_costs else LEAST_DEVIATION,
        tenths_of_move=math.inf if config.ignore_cost_in_scoring else float(TENTHS),
        repetitions=float(max(1, repetitions)),
        columns=float(max(1, columns)),
        local_domains=float(config.local_domain_weight),
        plain_deviation=plain_deviation,
    )


def _product_offset(config: PlbConfig, replicas: int) -> float:
    """Return the second factor of the product form of the energy without moves; 0 in the additive form (unused)."""
    if config.combination is not Combination.SERVICE_FABRIC:
        return 0.0
    return 1.0 if config.ignore_cost_in_scoring else float(replicas + config.move_cost_offset)


@kernel(inline=True)
def energy_of(weights: Weights, values: TermValues) -> float:
    """Return the energy of a configuration.

    additive: ``E = (m + w_f·V + w_O·O) + w_I·I + w_F·F``; service_fabric: ``E = (I + w_F·F + 0.001)·(replicas +
    move_cost_offset ± (m + w_f·V + w_O·O))``, with minus if the first factor is negative. With `ignore_cost_in_scoring`
    the first form has no m, and the second is ``E = I + w_F·F``.
    """
    cost = values.movement / weights.tenths_of_move
    cost += weights.expected_failovers * (values.expected_failovers / weights.repetitions)
    cost += weights.expected_overload * (values.expected_overload / (UNITS * weights.columns))
    fragmentation = weights.fragmentation * values.fragmentation
    if weights.product_form:
        factor = values.imbalance + fragmentation + weights.least_deviation
        if factor < 0.0:
            cost = -cost  # moves must also cost where packing makes the factor negative
        return float(factor * (weights.product_offset + cost))
    return float(cost + weights.imbalance * values.imbalance + fragmentation)


def weights_in_balancing(problem: Problem, solution: Solution) -> Weights:
    """Return the weights of the energy for balancing, in which the imbalance weighs w_I·n·I.

    `solution` is the start of balancing: n replicas with load stand on nodes with the imbalance I. Moving a replica of
    s times the mean load between nodes whose loads differ by a share d of the mean lowers I by about s·d/(n·I), so that
    it wins w_I·s·d at any size of the cluster, and is worth a move from s·d = 1/w_I (docs/terms/imbalance.md).
    The product form, and metrics that are packed or reserve nodes, keep their weights. So do clusters with n·I below 1,
    where other terms could otherwise make an even cluster uneven.
    """
    weights = problem.weights
    if weights.product_form or problem.defragmented.any() or problem.reserving.any():
        return weights
    has_load = (problem.load[: len(solution.node), problem.metric_weight > 0.0] > 0).any(axis=1)
    replicas = int(np.count_nonzero(has_load & (solution.node != NOWHERE) & ~problem.leaving))
    factor = max(1.0, replicas * float(solution.totals.imbalance))
    return weights._replace(imbalance=weights.imbalance * factor)


@attrs.frozen(eq=False)
class TermDescription:
    """A term as plans, reasons of moves, settings and property tests see it."""

    name: str
    """Its name in plans, and the field of `TermValues` and of `plb.model.plan.Energy`."""
    after: Callable[[Problem, Solution, Proposal], float]
    """Kernel: the value of the whole solution after a proposal, as in `TermValues`."""
    weight: Callable[[PlbConfig], float]
    """Returns what a term of 1 adds to the additive energy."""
    unit: Callable[[Problem], float] = lambda _problem: 1.0
    """Returns the number in `TermValues` that stands for a term of 1."""
    drives_moves: bool = True
    """Whether a move may be made because of it."""
    new_sums: Callable[[Problem], Mapping[str, Any]] = lambda _problem: {}
    """Returns the arrays of `Solution` that only this term needs, without any row."""
    total: Callable[[Problem, Solution], float] | None = None
    """Returns the term as the user sees it from the nodes of the rows alone, in plain NumPy: the oracle of property
    tests. None: the sums from scratch are the oracle.
    """
    reason: Callable[[NamedSolution, Solution, Phase], Reason] | None = None
    """Returns why a move is made that lowers the energy by this term, from the solution before a phase, the solution
    after it and the phase; None: the values of the term before and after are the reason.
    """
