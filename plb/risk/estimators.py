"""Who says how likely a violation is: the estimators that an engine can be driven by, and their names.

``monte-carlo`` is that of [1]; ``gaussian`` that of [2], over what replicas have shown; peak predictors of [5] are
written as `plb.risk.peaks.specs` has it, such as ``n-sigma:n=3,warmup=12,history=60``.
"""

from __future__ import annotations

from typing import ClassVar, TypeAlias

import attrs

from plb.errors import InvalidValueError
from plb.risk.peaks.predictors import LEAST_SEEN, MOST_SAMPLES, BorgDefault, Maximum, PeakOracle, Predictor
from plb.risk.peaks.specs import parse
from plb.validation import check_count, check_switch


@attrs.frozen
class MonteCarlo:
    """[1]: repetitions drawn from past tenants; see `plb.risk.monte_carlo`."""

    kind: ClassVar[str] = "monte-carlo"


@attrs.frozen(kw_only=True)
class Gaussian:
    """[2] section 4: the total of a node is Gaussian, with the summed means and variances of what replicas have shown.

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
"""What tells an engine how likely a violation is."""


def estimator_of(text: object, item: str = "PlbConfig") -> Estimator:
    """Return the estimator that a text describes; errors name the item.

    Raises
    ------
    UnknownNameError
        There is no such estimator or parameter.
    InvalidValueError
        A value is out of range, or the estimator looks into the future.
    """
    if not isinstance(text, str):
        raise InvalidValueError(item, "estimator", text, "a text such as 'monte-carlo' or 'n-sigma:n=5'")
    found: Estimator | PeakOracle = parse(text, more=(MonteCarlo, Gaussian))
    if isinstance(found, PeakOracle):
        raise InvalidValueError(item, "estimator", text, "an estimator that looks at the past alone")
    return found


def samples_kept(estimator: Estimator) -> int:
    """Return how many samples of each replica an estimator looks at."""
    if isinstance(estimator, Maximum):
        return max(samples_kept(one) for one in estimator.of)
    if isinstance(estimator, MonteCarlo | BorgDefault):
        return 0
    return estimator.history


def samples_needed(estimator: Estimator) -> int:
    """Return how many samples it takes at the most until a replica is known to an estimator."""
    if isinstance(estimator, Maximum):
        return max(samples_needed(one) for one in estimator.of)
    if isinstance(estimator, MonteCarlo | BorgDefault):
        return 0
    return max(LEAST_SEEN, estimator.warmup)
