"""Recalibration of predicted violation probabilities by what happened after earlier predictions.

The map is the isotonic regression of outcomes on probabilities: the non-decreasing function with the least squared
error (Zadrozny, Elkan: Transforming classifier scores into accurate multiclass probability estimates, KDD 2002). It is
constant on blocks of the probability. Between the blocks' means it is interpolated here, so that it has no steps whose
places depend on single predictions (Oron, Flournoy: Centered isotonic regression, arXiv:1701.05964).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, overload

import attrs
import numpy as np
import numpy.typing as npt

from plb.array_types import Bool, Float, Int
from plb.errors import InvalidValueError
from plb.validation import check_collection, check_mapping, check_number

ITEM = "recalibration"
PROBABILITIES = "finite numbers >= 0 and <= 1"


def _checked_points(_: Recalibration, field: attrs.Attribute[Any], values: tuple[float, ...]) -> None:
    """Raise an error unless the values increase (`predicted`) or never fall (`recalibrated`)."""
    ordered = np.diff(values) > 0.0 if field.name == "predicted" else np.diff(values) >= 0.0
    if not values or not ordered.all():
        kind = "increasing" if field.name == "predicted" else "non-decreasing"
        raise InvalidValueError(ITEM, field.name, list(values), f"at least one number, in {kind} order")


def _points(field: str) -> Any:
    """Return a field of an attrs class, of this name, for probabilities, which are checked one by one."""

    def converted(values: Any) -> tuple[float, ...]:
        numbers = check_collection(ITEM, field, values, f"a list of {PROBABILITIES}")
        return tuple(check_number(ITEM, f"{field}[{index}]", number, high=1.0) for index, number in enumerate(numbers))

    return attrs.field(converter=converted, validator=_checked_points)


@attrs.frozen
class Recalibration:
    """A non-decreasing map from predicted to recalibrated probabilities.

    It is linear between K points, and constant before the first and after the last.

    Raises
    ------
    InvalidValueError
        A value is not in [0, 1] or not in order, or the lists are empty or of different lengths.
    """

    predicted: tuple[float, ...] = _points("predicted")
    """K predicted probabilities, increasing, K >= 1."""
    recalibrated: tuple[float, ...] = _points("recalibrated")
    """The probabilities that they become, non-decreasing, K."""

    def __attrs_post_init__(self) -> None:
        if len(self.predicted) != len(self.recalibrated):
            allowed = f"{len(self.predicted)} numbers, as many as in predicted"
            raise InvalidValueError(ITEM, "recalibrated", list(self.recalibrated), allowed)

    @classmethod
    def fit(cls, probability: npt.ArrayLike, occurred: npt.ArrayLike) -> Recalibration:
        """Return the map that fits earlier predictions of one estimator for one horizon.

        Parameters
        ----------
        probability
            (S,) predicted probabilities, S >= 1.
        occurred
            (S,) whether a violation followed, as booleans or as 0 and 1.

        Raises
        ------
        InvalidValueError
            There is no prediction, a probability is not in [0, 1], an outcome is neither true nor false, or they are
            not equally many.

        Notes
        -----
        The mean over the points, each with the predictions of its block, is the share of violations in the sample. The
        mean of the recalibrated sample may differ a little from it, because the map is not constant on a block of
        several probabilities.
        """
        probabilities = _checked_probabilities("probability", probability)
        outcomes = _checked_outcomes(occurred)
        if not probabilities.size or probabilities.shape != outcomes.shape or probabilities.ndim != 1:
            allowed = f"lists of equal length, at least 1; occurred has the shape {outcomes.shape}"
            raise InvalidValueError(ITEM, "probability", f"an array of shape {probabilities.shape}", allowed)
        levels, level_of = np.unique(probabilities, return_inverse=True)
        samples = np.bincount(level_of)
        violations = np.bincount(level_of, outcomes).astype(np.float64)
        first = _blocks(samples, violations)
        in_block = np.add.reduceat(samples, first)
        mean = np.add.reduceat(levels * samples, first) / in_block
        last = np.append(first[1:], len(levels)) - 1
        mean = np.clip(mean, levels[first], levels[last])  # rounding must not bring it into a neighbour
        return cls(mean.tolist(), (np.add.reduceat(violations, first) / in_block).tolist())

    @overload
    def __call__(self, probability: Mapping[str, float]) -> dict[str, float]: ...

    @overload
    def __call__(self, probability: npt.ArrayLike) -> Float: ...

    def __call__(self, probability: Mapping[str, float] | npt.ArrayLike) -> dict[str, float] | Float:
        """Return recalibrated probabilities.

        Parameters
        ----------
        probability
            Predicted probabilities: an array of any shape, or by node, as
            `plb.PlacementAndLoadBalancing.violation_probabilities` returns them.

        Returns
        -------
        numpy.ndarray or dict
            The recalibrated probabilities, in the same shape or by the same names.

        Raises
        ------
        InvalidValueError
            A probability is not in [0, 1].
        """
        if isinstance(probability, Mapping):
            values = self(
                np.array([check_number(ITEM, str(name), number, high=1.0) for name, number in probability.items()])
            )
            return dict(zip(probability, values.tolist(), strict=True))
        probabilities = _checked_probabilities("probability", probability)
        predicted, recalibrated = np.array(self.predicted), np.array(self.recalibrated)
        within = np.clip(probabilities, predicted[0], predicted[-1])
        left = np.searchsorted(predicted, within, side="right") - 1
        right = np.minimum(left + 1, len(predicted) - 1)
        width = predicted[right] - predicted[left]
        share = np.divide(within - predicted[left], width, out=np.zeros(probabilities.shape), where=width > 0.0)
        rise = recalibrated[right] - recalibrated[left]
        # rounding may exceed the point on the right by its last digit, and then the map would fall there
        return np.asarray(np.minimum(recalibrated[left] + share * rise, recalibrated[right]))

    def to_json(self) -> dict[str, list[float]]:
        """Return plain JSON values; `from_json` returns the same map from them."""
        return {"predicted": list(self.predicted), "recalibrated": list(self.recalibrated)}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Recalibration:
        """Return the map of `to_json`, for example from the figures of ``plb study calibration --json``.

        Raises
        ------
        InvalidValueError
            A list is missing, or a value is refused by the class.
        """
        mapping = check_mapping(ITEM, "json", values, "an object with predicted and recalibrated")
        return cls(mapping.get("predicted", ()), mapping.get("recalibrated", ()))


def _checked_probabilities(field: str, values: npt.ArrayLike) -> Float:
    """Return numbers in [0, 1] as an array of floats, or raise `InvalidValueError`, which names `field`."""
    try:
        numbers = np.asarray(values, np.float64)
    except (TypeError, ValueError):
        raise InvalidValueError(ITEM, field, values, PROBABILITIES) from None
    wrong = ~((numbers >= 0.0) & (numbers <= 1.0))
    if wrong.any():
        raise InvalidValueError(ITEM, field, float(numbers[wrong].flat[0]), PROBABILITIES)
    return numbers


def _checked_outcomes(occurred: npt.ArrayLike) -> Bool:
    """Return outcomes as an array of booleans, or raise `InvalidValueError`."""
    try:
        outcomes = np.asarray(occurred)
        is_outcome = bool(((outcomes == 0) | (outcomes == 1)).all())
    except (TypeError, ValueError):
        is_outcome = False
    if not is_outcome:
        raise InvalidValueError(ITEM, "occurred", occurred, "True or False, or 1 or 0, each")
    return outcomes.astype(np.bool_)


def _blocks(samples: Int, violations: Float) -> Int:
    """Return the first level of each block on which the isotonic regression is constant, ascending.

    A level is one predicted probability; `samples`, (L,): how many predictions each has, in ascending order of levels;
    `violations`, (L,): how many of these a violation followed.
    """
    from scipy.optimize import isotonic_regression  # type: ignore[import-untyped]  # slow to import

    first = isotonic_regression(violations / samples, weights=samples).blocks[:-1]
    share = np.add.reduceat(violations, first) / np.add.reduceat(samples, first)
    return np.asarray(first[np.diff(share, prepend=-1.0) > 0.0])  # neighbours with equal shares are one block
