"""The arms that studies compare: policies with their own settings, on the same tenants."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import attrs

NOTHING: Mapping[str, Any] = MappingProxyType({})
INITIAL_DEMAND_PERCENTILES = (50, 80, 90, 95, 99)
"""[1] section 8.2."""
ORACLE_HOURS = 24.0
"""[1] section 8.2."""
WITHOUT_PROBABILITIES = (
    "best_fit_sum",
    "best_fit_max",
    "worst_fit_sum",
    "worst_fit_max",
    "standard_deviation",
    "inner_product",
    "repacking",
)
"""The placement algorithms that [1] section 8.3 compares with."""
WITH_PROBABILITIES = ("prv_best_fit", "prv_worst_fit")
"""PrV-BestFit and PrV-WorstFit, [1] section 6."""


@attrs.frozen
class Arm:
    """A policy with its own settings.

    Parameters
    ----------
    name
        Name in tables.
    policy
        Name of a built-in policy of scenarios.
    workload
        Fields of ``[workload]`` in which the arm differs. None of them changes the tenants.
    engine
        Fields of `plb.PlbConfig` in which the arm differs from its policy.
    """

    name: str
    policy: str
    workload: Mapping[str, Any] = NOTHING
    engine: Mapping[str, Any] = NOTHING


ORIGINAL = Arm("original", "original")
MODIFIED = Arm("modified", "modified")
OVERLOAD = Arm("expected_overload", "expected_overload")


def with_oracle(arm: Arm) -> Arm:
    """Return an arm that reports the largest future demand of the next hours instead of the present demand."""
    return attrs.evolve(arm, name=f"{arm.name}+oracle", workload={**arm.workload, "oracle_hours": ORACLE_HOURS})


def with_initial_demand(arm: Arm, percentile: int) -> Arm:
    """Return an arm that assumes this percentile of the initial demand for a new replica."""
    workload = {**arm.workload, "initial_demand_percentile": float(percentile)}
    return attrs.evolve(arm, name=f"{arm.name}@p{percentile}", workload=workload)


def placement_arms(names: tuple[str, ...]) -> tuple[Arm, ...]:
    """Return an arm for each of these placement policies."""
    return tuple(Arm(name, name) for name in names)


BY_PEAKS = placement_arms(WITH_PROBABILITIES)
"""The policies with probabilities, evaluated by peaks as in [1] section 7."""
AT_DEPARTURES = tuple(Arm(f"{name}, timeline", name, engine={"evaluation": "timeline"}) for name in WITH_PROBABILITIES)
"""The same policies, evaluated at departures as in [1] sections 5.3 and 6."""
