"""The options of a study of paper 1, and the runs that follow from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from cluster.scenario.scenario import MOST_REPEATS
from cluster.scenario.workload_section import MOST_DENSITY
from cluster.studies.arms import NOTHING, Arm
from cluster.studies.base import Base
from cluster.studies.design import MOST_SAMPLES, Design, StudySetting, middle_of_each
from cluster.studies.pilots import Pilot
from cluster.studies.runner import OutputDirectory
from plb import InvalidValueError
from plb.validation import check_count, check_number

QUICK_DAYS = 2.0


@attrs.frozen(kw_only=True)
class StudyRequest:
    """The options of a study. None: as in the paper.

    Parameters
    ----------
    base
        Cluster and tenants.
    output
        Directory of the results.
    quick
        True: a small part of the study.
    full, oracle, initial_demand
        True: further arms of the study of policies; `full` also increases the repeats.
    samples
        Samples of the study of compression.
    densities, repeats, days
        Tenant densities; repeats and simulated days of each run.
    first_hours
        Hours until the first predictions of the study of calibration.
    seed
        Seed of all random numbers.
    """

    base: Base
    output: OutputDirectory
    quick: bool = False
    full: bool = False
    oracle: bool = False
    initial_demand: bool = False
    samples: int | None = None
    densities: Sequence[float] | None = None
    repeats: int | None = None
    days: float | None = None
    first_hours: int | None = None
    seed: int = 0

    def __attrs_post_init__(self) -> None:
        if self.days is not None:
            check_number("study", "days", self.days, low_open=True)
        if self.repeats is not None:
            check_count("study", "repeats", self.repeats, low=1, high=MOST_REPEATS)
        if self.first_hours is not None:
            check_count("study", "first_hours", self.first_hours)
        if self.samples is not None:
            check_count("study", "samples", self.samples, low=1, high=MOST_SAMPLES)
        for density in self.densities or ():
            check_number("study", "density", density, low_open=True, high=MOST_DENSITY)
            if not self.base.density:
                raise InvalidValueError(
                    "study", "density", density, "none, as the arrivals of the scenario are recorded"
                )

    def settings(self, pilots: Sequence[Pilot]) -> list[StudySetting]:
        """Return the settings: at the given densities, else at the known ones, else at those that a pilot finds now."""
        found = []
        for pilot in pilots:
            densities = pilot.known_densities(self.base)
            if self.densities:
                densities = dict.fromkeys(self.base.workloads, self.densities)
            elif densities is None and (self.quick or not self.base.density):
                densities = dict.fromkeys(self.base.workloads, (self.base.density,))
            elif densities is None:
                densities = pilot.run_in(self.output, self.base)
            elif self.quick:
                densities = {name: known[len(known) // 2 :][:1] for name, known in densities.items()}
            found += pilot.settings(self.base, densities)
        return found

    def design(
        self,
        pilots: Sequence[Pilot],
        arms: Sequence[Arm],
        *,
        repeats: int,
        days: float,
        quick_days: float = QUICK_DAYS,
        middle: int | None = None,
    ) -> Design:
        """Return the runs of these arms at the densities of pilots.

        Parameters
        ----------
        repeats, days, quick_days
            Of the study, if the user has not given them.
        middle
            Number of densities of each workload, the middle ones, if the user has not given any. None: all.
        """
        of_runs: dict[str, Any] = {"repeats": repeats, "days": days, "quick_days": quick_days}
        of_runs["engine"] = pilots[0].engine
        usual = pilots[0].settings(self.base, dict.fromkeys(self.base.workloads, (self.base.density,)))
        self.design_at(usual, arms, **of_runs)  # raises errors that do not depend on the density before a pilot runs
        settings = self.settings(pilots)
        if middle is not None and not self.densities:
            settings = middle_of_each(settings, middle)
        return self.design_at(settings, arms, **of_runs)

    def design_at(
        self,
        settings: Sequence[StudySetting],
        arms: Sequence[Arm],
        *,
        repeats: int,
        days: float,
        quick_days: float = QUICK_DAYS,
        engine: Mapping[str, Any] = NOTHING,
        first_seed: int = 0,
    ) -> Design:
        """Return the runs of these arms in these settings; `first_seed` is added to the seed."""
        return Design(
            self.base,
            settings,
            arms,
            days=(quick_days if self.quick else days) if self.days is None else self.days,
            repeats=(1 if self.quick else repeats) if self.repeats is None else self.repeats,
            seed=first_seed + self.seed,
            engine=engine,
        )
