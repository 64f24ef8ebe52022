"""Violations with different settings of the annealing engine, beyond [1].

The candidates are compared on some regions, with tenants that no other study uses. How the chosen one does on all
regions, the other ones among them, is part of the study of annealing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from cluster.studies.base import MODIFIED, Arm, Base
from cluster.studies.design import BUDGET, StudySetting
from cluster.studies.figures import Claim, ClaimTable, Violations
from cluster.studies.policy_study import PolicyStudy
from cluster.studies.request import DENSITIES, StudyRequest
from cluster.studies.risk import BEYOND_PAPERS
from plb import PlbConfig, PlbError

DAYS, REPEATS = 10.0, 2
FIRST_SEED = 1001
"""Added to the seed of the user. Other studies begin at 0, and their pilots have another seed."""
TUNED_ON = ("region1", "region3")
"""The regions on which candidates are compared."""
VCORES = 80.0
ROUNDS = "max_simulated_annealing_iterations"
REPETITIONS: Any = attrs.fields(PlbConfig).repetitions.default
"""The default of K."""
INTERVALS = {"hour": 3600.0, "10 minutes": 600.0}
"""Seconds between two searches for balance."""
OVERLOAD_ALONE, OVERLOAD_AHEAD = (10, 30, 100, 300), (30, 100, 300)
LONGER = (10, 1000)
"""Factors of the proposal budget."""
DEFAULT = "w_overload = 100"
"""The default of `plb.PlbConfig`: the candidate with the fewest violations among those that do not have more failovers,
moves or downtime than the modified energy."""
IMBALANCES = (1, 100)
"""Weights of the imbalance, beside that of the default."""
WEIGHTS = ("w_failovers", "w_imbalance", "w_overload")
SET_HERE = ("estimator", "evaluation", "min_load_balancing_interval", "replay", *WEIGHTS)
"""Settings that a scenario must not have."""


def arms(base: Base) -> tuple[Arm, ...]:
    """Return the modified energy of [1], and candidates that are named after their difference to it."""
    engine = base.tables.get("engine", {})
    repetitions = 4 * engine.get("repetitions", REPETITIONS)
    rounds = engine.get(ROUNDS, BUDGET[ROUNDS])
    candidates = {
        "timeline": {"evaluation": "timeline"},
        f"K = {repetitions}": {"repetitions": repetitions},
        **{f"w_failovers = {weight}": {"w_failovers": float(weight)} for weight in (1, 10, 100)},
        **{f"w_overload = {weight}": {"w_overload": float(weight)} for weight in OVERLOAD_ALONE},
    }
    for every, interval in INTERVALS.items():
        for weight in OVERLOAD_AHEAD:
            ahead = {"w_overload": float(weight), "min_load_balancing_interval": interval}
            candidates[f"w_overload = {weight}, every {every}"] = ahead
    by_default = candidates[DEFAULT]
    for weight in IMBALANCES:
        candidates[f"{DEFAULT}, w_imbalance = {weight}"] = {**by_default, "w_imbalance": float(weight)}
    for label, fields in BEYOND_PAPERS.items():
        candidates[f"{DEFAULT}, {label}"] = {**by_default, **fields}
    often = f"{DEFAULT}, every 10 minutes"
    longer = {
        f"{often}, {times} times the proposals": {**candidates[often], ROUNDS: times * rounds} for times in LONGER
    }
    return (MODIFIED, *(Arm(name, MODIFIED.policy, engine=fields) for name, fields in {**candidates, **longer}.items()))


def settings(base: Base, densities: Sequence[float] | None) -> list[StudySetting]:
    """Return the settings at the given densities.

    The default is two middle densities of the study of annealing in each region, or the density of the scenario.
    """
    if not base.is_of_regions:
        assert base.vcores is not None
        _check_free(base)
        return [StudySetting(name, base.vcores, one) for name in base.workloads for one in densities or (base.density,)]
    known = DENSITIES["annealing", VCORES]
    return [StudySetting(name, VCORES, one) for name in TUNED_ON for one in densities or known[name][1:3]]


def _check_free(base: Base) -> None:
    """Raise an error if a scenario sets one of the settings in which the candidates differ."""
    given = [field for field in SET_HERE if field in base.tables.get("engine", {})]
    if given:
        raise PlbError(f"the study of configurations sets engine.{given[0]}; remove it from the scenario")


class ConfigurationStudy(PolicyStudy):
    """Violations of the candidates."""

    name = "configurations"
    compared = MODIFIED.name
    plot = "configurations.png"

    @classmethod
    def of(cls, request: StudyRequest) -> ConfigurationStudy:
        """Return the study that a user requests, on regions and tenants that no other study uses."""
        chosen = settings(request.base, request.densities)
        design = request.design_at(
            chosen[:1] if request.quick else chosen,
            arms(request.base),
            repeats=REPEATS,
            days=DAYS,
            first_seed=FIRST_SEED,
        )
        return cls(design)

    def claims(self, found: Violations) -> list[Claim]:
        """Return the ratio of the violations of each candidate to those of the modified energy."""
        names = (name for name in found.counts if name != self.compared)
        return [Claim(f"{name} / {self.compared}", "", found.ratio([name], self.compared)) for name in names]

    def tables(self, found: Violations) -> list[ClaimTable]:
        """Return the mean violations by setting of the modified energy and of the engine's default."""
        columns = {name: found.means(name) for name in (self.compared, DEFAULT)}
        return [ClaimTable(found.settings, columns, {}, self.compared, DEFAULT)]
