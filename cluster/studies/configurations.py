"""Beyond [1]: which settings of the annealing engine leave the fewest violations.

The candidates are compared on some regions, with tenants that no other study uses. How the chosen one does on all
regions, the other ones among them, is part of the study of annealing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cluster.studies.arms import MODIFIED, Arm
from cluster.studies.base import Base
from cluster.studies.claims import Claim, Table
from cluster.studies.densities import CHOSEN
from cluster.studies.design import BUDGET, Setting
from cluster.studies.figures import Violations

DAYS, REPEATS = 10.0, 2
FIRST_SEED = 1001
"""Added to the seed that is asked for: other studies begin at 0, and their pilot has one of its own."""
TUNED_ON = ("region1", "region3")
"""The regions on which candidates are compared."""
COMPARED = MODIFIED.name
ROUNDS = BUDGET["max_simulated_annealing_iterations"]
VCORES = 80.0
INTERVALS = {"hour": 3600.0, "10 minutes": 600.0}
"""How often the engine may move replicas that are in no violation, seconds."""


def _ahead(weight: int, every: str, **engine: Any) -> Arm:
    """Return an arm with a weight on overload that moves replicas ahead of shortages, every so often."""
    settings = {"w_overload": float(weight), "min_load_balancing_interval": INTERVALS[every], **engine}
    longer = engine.get("max_simulated_annealing_iterations", ROUNDS) // ROUNDS
    name = f"w_overload = {weight}, every {every}" + (f", {longer} times the proposals" if longer > 1 else "")
    return Arm(name, COMPARED, engine=settings)


ARMS = (
    MODIFIED,
    Arm("timeline", COMPARED, engine={"evaluation": "timeline"}),
    Arm("K = 400", COMPARED, engine={"repetitions": 400}),
    *(Arm(f"w_failovers = {weight}", COMPARED, engine={"w_failovers": float(weight)}) for weight in (1, 10, 100)),
    *(Arm(f"w_overload = {weight}", COMPARED, engine={"w_overload": float(weight)}) for weight in (10, 30, 100, 300)),
    *(_ahead(weight, every) for every in INTERVALS for weight in (30, 100, 300)),
    *(_ahead(100, "10 minutes", max_simulated_annealing_iterations=times * ROUNDS) for times in (10, 1000)),
)
"""The modified energy of [1], and where each candidate differs from it."""
DEFAULT = "w_overload = 100"
"""The default of `plb.PlbConfig`: of the candidates with neither more failovers, nor moves, nor downtime than the
modified energy, the one with the fewest violations."""


def settings(base: Base, densities: Sequence[float] | None) -> list[Setting]:
    """Return the settings at some densities; by itself two middle ones of the study of annealing in each region.

    On a cluster of a user's own it is the density of the scenario.
    """
    if not base.is_of_regions:
        assert base.vcores is not None
        return [Setting(name, base.vcores, one) for name in base.workloads for one in densities or (base.density,)]
    known = CHOSEN["annealing", VCORES]
    return [Setting(name, VCORES, one) for name in TUNED_ON for one in densities or known[name][1:3]]


def claims(found: Violations) -> list[Claim]:
    """Return the violations of each candidate by those of the modified energy."""
    names = (name for name in found.counts if name != COMPARED)
    return [Claim(f"{name} / {COMPARED}", "", found.ratio([name], COMPARED)) for name in names]


def table(found: Violations) -> Table:
    """Return the mean violations by setting of the modified energy and of the engine's default."""
    columns = {name: found.means(name) for name in (COMPARED, DEFAULT)}
    return Table(found.settings, columns, {}, COMPARED, DEFAULT)
