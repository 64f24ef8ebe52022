"""At which densities a study looks: chosen by what the original energy does there, before anything else has run.

A pilot runs the original at a ladder of densities, with tenants that no study uses. Where its mean violations reach
certain marks, a study of annealing looks; a study of policies looks at densities spread evenly between two marks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from cluster.studies.arms import ORIGINAL
from cluster.studies.base import Base
from cluster.studies.carrying_out import Row
from cluster.studies.design import WITHOUT_DOMAINS, Design, Setting

PILOT_SEED, PILOT_REPEATS = 1_000_003, 2
LADDER = tuple(float(rung) for rung in np.round(np.arange(0.75, 5.01, 0.25), 2))
"""Densities of the pilot, for workloads whose usual density is 2; others in proportion."""
LADDER_DENSITY = 2.0
ANNEALING_MARKS = (8.0, 20.0, 50.0, 120.0)
"""Violations of the original in a run at which figure 8 looks: 40 nodes, a factor of 2.5 apart."""
POLICIES_MARKS = (5.0, 150.0)
"""Violations of the original in a run between which figure 9 looks."""
GRAIN = 0.05
"""Densities are rounded to this."""


@attrs.frozen
class Ladder:
    """A pilot of one study on one kind of hardware.

    Parameters
    ----------
    study
        Name of the study.
    vcores
        Of a node.
    days
        Of a run.
    engine
        Settings of the engine.
    count
        How many densities are chosen.
    """

    study: str
    vcores: float
    days: float
    engine: Mapping[str, Any]
    count: int

    def climb(self, base: Base, carry_out: Callable[[Design], Sequence[Row]]) -> dict[str, list[float]]:
        """Return the densities of each workload.

        Each climbs until the original has more violations than any mark, or a density that the cluster cannot hold.

        Parameters
        ----------
        carry_out
            Makes the runs of a design, and returns those that did not fail.
        """
        curves: dict[str, dict[float, list[float]]] = {name: {} for name in base.workloads}
        climbing = list(base.workloads)
        for rung in LADDER:
            density = round(base.density * rung / LADDER_DENSITY, 4)
            rows = carry_out(self._design(base, climbing, density)) if climbing else ()
            for row in rows:
                curves[row["workload"]].setdefault(density, []).append(row["violations"])
            climbing = [name for name in climbing if self._is_below(curves[name].get(density, ()))]
        return {name: self._of_curve(curve) for name, curve in curves.items()}

    def _design(self, base: Base, workloads: Sequence[str], density: float) -> Design:
        settings = [Setting(name, self.vcores, density) for name in workloads]
        engine = {**base.engine, **self.engine}
        return base.design(settings, (ORIGINAL,), days=self.days, repeats=PILOT_REPEATS, seed=PILOT_SEED, engine=engine)

    @property
    def _marks(self) -> Sequence[float]:
        return ANNEALING_MARKS if self.study == "annealing" else POLICIES_MARKS

    def _is_below(self, violations: Sequence[float]) -> bool:
        return len(violations) > 0 and float(np.mean(violations)) < max(self._marks)

    def _of_curve(self, curve: Mapping[float, Sequence[float]]) -> list[float]:
        rungs = sorted(curve)
        means = np.maximum.accumulate([float(np.mean(curve[rung])) for rung in rungs])
        at_marks = [float(np.interp(mark, means, rungs)) for mark in self._marks]
        if self.study == "policies":
            at_marks = np.linspace(at_marks[0], at_marks[-1], self.count).tolist()
        return [_rounded(density) for density in at_marks]


def _rounded(density: float) -> float:
    return round(round(density / GRAIN) * GRAIN, 2)


LADDERS = (
    Ladder("annealing", 80.0, 10.0, {}, len(ANNEALING_MARKS)),
    Ladder("policies", 80.0, 12.5, WITHOUT_DOMAINS, 13),
    Ladder("policies", 128.0, 12.5, WITHOUT_DOMAINS, 4),
)
CHOSEN: Mapping[tuple[str, float], Mapping[str, Sequence[float]]] = {}
"""By study and vCores, the densities of the synthetic regions, as ``plb study densities`` finds them."""


def chosen(ladder: Ladder, base: Base) -> Mapping[str, Sequence[float]] | None:
    """Return the densities that were chosen before; None where a workload has none."""
    known = CHOSEN.get((ladder.study, ladder.vcores), {})
    return known if all(name in known for name in base.workloads) and base.is_of_regions else None
