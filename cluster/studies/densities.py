"""At which densities a study looks: chosen by what the original energy does there, before anything else has run.

A pilot runs the original at a ladder of densities, with tenants that no study uses. Where its mean violations reach
certain marks, a study of annealing looks; a study of policies looks at densities spread evenly between two marks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from cluster.studies.arms import ORIGINAL
from cluster.studies.base import Base
from cluster.studies.design import WITHOUT_DOMAINS, Design, StudySetting
from cluster.studies.runner import Row
from plb import PlbError

PILOT_SEED, PILOT_REPEATS = 1_000_003, 2
LADDER = tuple(float(rung) for rung in np.round(np.arange(0.75, 5.01, 0.25), 2))
"""Densities of the pilot, for workloads whose usual density is 2; others in proportion."""
LADDER_DENSITY = 2.0
ANNEALING_MARKS = (8.0, 20.0, 50.0, 120.0)
"""Violations of the original in a run at which figure 8 looks: 40 nodes, a factor of 2.5 apart."""
POLICIES_MARKS = (5.0, 150.0)
"""Violations of the original in a run between which figure 9 looks."""
GRAIN = 0.01
"""Densities are rounded to this; where the usual one is below 0.2, to a tenth of it, and so on."""


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
    marks
        Violations of the original in a run at which the study looks.
    count
        How many densities are chosen, spread evenly between the marks; None: one at each mark.
    repeats
        Runs at each density.
    """

    study: str
    vcores: float
    days: float
    engine: Mapping[str, Any]
    marks: Sequence[float]
    count: int | None = None
    repeats: int = PILOT_REPEATS

    def climb(self, base: Base, run_tasks: Callable[[Design], Sequence[Row]]) -> dict[str, list[float]]:
        """Return the densities of each workload.

        Each climbs until the original has more violations than any mark, or a density that the cluster cannot hold.

        Parameters
        ----------
        run_tasks
            Makes the runs of a design, and returns those that did not fail.
        """
        finer = max(0, math.ceil(-math.log10(10.0 * base.density / LADDER_DENSITY)))  # digits
        curves: dict[str, dict[float, list[float]]] = {name: {} for name in base.workloads}
        climbing = list(base.workloads)
        for rung in LADDER:
            density = round(base.density * rung / LADDER_DENSITY, 4 + finer)
            rows = run_tasks(self._design(base, climbing, density)) if climbing else ()
            for row in rows:
                curves[row["workload"]].setdefault(density, []).append(row["violations"])
            climbing = [name for name in climbing if self._is_below(curves[name].get(density, ()))]
        for name, curve in curves.items():
            if not curve:
                least = base.density * LADDER[0] / LADDER_DENSITY
                raise PlbError(f"densities of {name}: the cluster cannot hold even the least, {least:g}")
        return {name: self._of_curve(curve, finer) for name, curve in curves.items()}

    def settings(self, base: Base, densities: Mapping[str, Sequence[float]]) -> list[StudySetting]:
        """Return the settings of each workload at its densities."""
        vcores = self.vcores if base.vcores is None else base.vcores
        return [StudySetting(name, vcores, density) for name in base.workloads for density in densities.get(name, ())]

    def _design(self, base: Base, workloads: Sequence[str], density: float) -> Design:
        settings = self.settings(base, dict.fromkeys(workloads, (density,)))
        return base.design(
            settings, (ORIGINAL,), days=self.days, repeats=self.repeats, seed=PILOT_SEED, engine=self.engine
        )

    def _is_below(self, violations: Sequence[float]) -> bool:
        return len(violations) > 0 and float(np.mean(violations)) < max(self.marks)

    def _of_curve(self, curve: Mapping[float, Sequence[float]], finer: int) -> list[float]:
        rungs = sorted(curve)
        means = np.maximum.accumulate([float(np.mean(curve[rung])) for rung in rungs])
        at_marks = [float(np.interp(mark, means, rungs)) for mark in self.marks]
        if self.count is not None:
            at_marks = np.linspace(at_marks[0], at_marks[-1], self.count).tolist()
        grain = GRAIN / 10**finer
        return list(dict.fromkeys(round(round(density / grain) * grain, 2 + finer) for density in at_marks))


LADDERS = (
    Ladder("annealing", 80.0, 10.0, {}, ANNEALING_MARKS),
    Ladder("policies", 80.0, 12.5, WITHOUT_DOMAINS, POLICIES_MARKS, 13),
    Ladder("policies", 128.0, 12.5, WITHOUT_DOMAINS, POLICIES_MARKS, 4),
)
CHOSEN: Mapping[tuple[str, float], Mapping[str, Sequence[float]]] = {
    ("annealing", 80.0): {
        "region1": (1.88, 2.02, 2.13, 2.25),
        "region2": (2.42, 2.53, 2.64, 2.75),
        "region3": (1.0, 1.29, 1.56, 1.75),
        "region4": (1.0, 1.38, 1.54, 1.66),
    },
    ("policies", 80.0): {
        "region1": (1.71, 1.76, 1.8, 1.85, 1.89, 1.94, 1.98, 2.03, 2.07, 2.12, 2.16, 2.21, 2.25),
        "region2": (2.32, 2.35, 2.39, 2.43, 2.46, 2.5, 2.54, 2.57, 2.61, 2.65, 2.68, 2.72, 2.75),
        "region3": (0.83, 0.91, 0.99, 1.06, 1.14, 1.22, 1.29, 1.37, 1.45, 1.52, 1.6, 1.68, 1.75),
        "region4": (0.82, 0.89, 0.96, 1.03, 1.1, 1.17, 1.24, 1.31, 1.38, 1.45, 1.52, 1.59, 1.66),
    },
    ("policies", 128.0): {
        "region1": (1.54, 1.75, 1.97, 2.19),
        "region2": (2.08, 2.29, 2.5, 2.71),
        "region3": (1.09, 1.23, 1.37, 1.51),
        "region4": (1.14, 1.33, 1.53, 1.72),
    },
}
"""By study and vCores, the densities of the synthetic regions, as ``plb study densities`` finds them."""


def chosen(ladder: Ladder, base: Base) -> Mapping[str, Sequence[float]] | None:
    """Return the densities that were chosen before; None where a workload has none."""
    known = CHOSEN.get((ladder.study, ladder.vcores), {})
    return known if all(name in known for name in base.workloads) and base.is_of_regions else None
