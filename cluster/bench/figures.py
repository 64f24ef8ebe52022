"""What `plb bench engine` reports."""

from __future__ import annotations

from typing import Any

import attrs

PAPER_PER_SECOND = 1000 / 0.890
"""Configurations a second of the modified component in [1] section 8.5."""


@attrs.frozen
class SizeFigures:
    """What is measured at one size; figures a second are scored configurations on one thread.

    Parameters
    ----------
    nodes, replicas
        The size.
    full
        (a) All repetitions of both nodes evaluated for every proposal.
    early_half, early_five
        (b) Early rejection, at 50 % and at 5 % acceptance on a fixed state.
    two_threads
        As `early_five`, on two threads at once.
    arithmetic
        A loop over prepared moves with only the 2·R·K adds and compares.
    reached_monte_carlo_half, reached_monte_carlo_five
        Share of evaluated configurations whose repetitions were evaluated.
    bytes_per_replica
        Memory of the arrays of a search for each replica.
    timeline_five
        As `early_five`, with repetitions tested at every departure (`plb.energy.timeline`).
    report_seconds, refresh_seconds
        Of a bulk report of all loads, each changed by up to a tenth, and of the refresh after it.
    decision_seconds, timeline_decision_seconds
        By placement policy, of a decision where one replica goes; with the evaluation at peaks and at departures.
    quality
        By seconds of balancing: which share of the energy that can be won was won; the best of all runs is all of it.
    """

    nodes: int
    replicas: int
    full: float
    early_half: float
    early_five: float
    two_threads: float
    arithmetic: float
    reached_monte_carlo_half: float
    reached_monte_carlo_five: float
    bytes_per_replica: float
    timeline_five: float
    report_seconds: float
    refresh_seconds: float
    decision_seconds: dict[str, float]
    timeline_decision_seconds: dict[str, float]
    quality: dict[float, float]

    @property
    def ratio(self) -> float:
        """Full evaluation relative to the arithmetic-only loop."""
        return self.full / self.arithmetic

    def as_json(self) -> dict[str, Any]:
        """Return the figures."""
        quality = {f"{seconds:g}": share for seconds, share in self.quality.items()}
        return attrs.asdict(self) | {"proposals_per_second": self.early_five, "ratio": self.ratio, "quality": quality}


@attrs.frozen
class EngineFigures:
    """What `plb bench engine` reports.

    Parameters
    ----------
    sizes
        Figures by size, the smallest first.
    first_plan_seconds
        Time from `import plb` to the first plan in a new process, with compiled kernels.
    cold_first_plan_seconds
        The same with none; None: not measured.
    """

    sizes: tuple[SizeFigures, ...]
    first_plan_seconds: float
    cold_first_plan_seconds: float | None

    def as_json(self) -> dict[str, Any]:
        """Return the figures under stable keys."""
        smallest = self.sizes[0]
        return {
            "proposals_per_second": smallest.early_five,
            "arithmetic_ratio": smallest.ratio,
            "first_plan_seconds": self.first_plan_seconds,
            "cold_first_plan_seconds": self.cold_first_plan_seconds,
            "sizes": [size.as_json() for size in self.sizes],
            "paper_per_second": PAPER_PER_SECOND,
        }
