"""The estimators of the probability of a violation for an engine, and their names.

``monte-carlo`` is that of [1]; ``gaussian`` that of [2], from reports; peak predictors of [5] are
written as in `plb.risk.peaks.spec_parsing`, such as ``n-sigma:n=3,warmup=12,history=60``.
"""

from __future__ import annotations

from typing import ClassVar, TypeAlias

import attrs

from plb.errors import InvalidValueError
from plb.risk.peaks.predictor_settings import LEAST_SEEN, MOST_SAMPLES, BorgDefault, Maximum, PeakOracle, Predictor
from plb.risk.peaks.spec_parsing import parse
from plb.validation import check_count, check_switch


@attrs.frozen
class MonteCarlo:
    """[1]: repetitions sampled from past tenants; see `plb.risk.monte_carlo`."""

    kind: ClassVar[str] = "monte-carlo"


@attrs.frozen(kw_only=True)
class Gaussian:
    """[2] section 4: the total of a node is Gaussian, with the summed means and variances of the reports of replicas.

    Parameters
    ----------
    warmup
        Samples until a replica is known; until then it counts at its limit.
    history
        Samples of each replica that are kept, the newest, at least 2.
    cap
        Whether a sample above the limit counts as the limit.
    """

    kind: ClassVar[str] = "gaussian"
    warmup: int = 24
    history: int = 120
    cap: bool = False

    def __attrs_post_init__(self) -> None:
        check_count(self.kind, "warmup", self.warmup, high=MOST_SAMPLES)
        check_count(self.kind, "history", self.history, low=2, high=MOST_SAMPLES)
        check_switch(self.kind, "cap", self.cap)


Estimator: TypeAlias = MonteCarlo | Gaussian | Predictor
"""The estimator of an engine."""


def estimator_of(text: object, item: str = "PlbConfig") -> Estimator:
    """Return the estimator of a text; errors name the item.

    Raises
    ------
    UnknownNameError
        The estimator or a parameter is unknown.
    InvalidValueError
        A value is out of range, or the estimator uses the future.
    """
    if not isinstance(text, str):
        raise InvalidValueError(item, "estimator", text, "a text such as 'monte-carlo' or 'n-sigma:n=5'")
    found: Estimator | PeakOracle = parse(text, more=(MonteCarlo, Gaussian))
    if isinstance(found, PeakOracle):
        raise InvalidValueError(item, "estimator", text, "an estimator that uses the past only")
    return found


def samples_kept(estimator: Estimator) -> int:
    """Return the number of samples of each replica that an estimator uses."""
    if isinstance(estimator, Maximum):
        return max(samples_kept(one) for one in estimator.of)
    if isinstance(estimator, MonteCarlo | BorgDefault):
        return 0
    return estimator.history


def samples_needed(estimator: Estimator) -> int:
    """Return the largest number of samples until a replica is warm."""
    if isinstance(estimator, Maximum):
        return max(samples_needed(one) for one in estimator.of)
    if isinstance(estimator, MonteCarlo | BorgDefault):
        return 0
    return max(LEAST_SEEN, estimator.warmup)
