"""How often the 95 % intervals of ratios of violations contain the truth, on drawn studies.

    python benchmarks/interval_coverage.py [--studies 1000] [--settings 8]

The violations of a run are Poisson counts whose mean is the mean of the arm times a gamma factor, which the arms of a
repeat share, as they share tenants, times a smaller one of the run.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from cluster.studies.design import StudySetting
from cluster.studies.violations import Violations
from plb.array_types import Float

REPEATS = (3, 5, 10, 20)
MEANS = (8.0, 100.0)
"""Least and largest mean violations of a setting by the arm with more of them."""
RATIOS = (1.2, 3.0)
"""Least and largest ratio of a setting."""
SHARED, OWN = 0.6, 0.2
"""Standard deviations of the factors of a repeat and of a run."""


def drawn(random: np.random.Generator, settings: int, repeats: int) -> tuple[Violations, float]:
    """Return the violations of two arms, and the true mean of the ratios of the settings."""
    means, ratios = np.exp(random.uniform(*np.log(MEANS), settings)), random.uniform(*RATIOS, settings)
    shared = _factors(random, SHARED, (settings, repeats))
    counts = {
        arm: random.poisson(mean[:, None] * shared * _factors(random, OWN, shared.shape)).astype(np.float64)
        for arm, mean in {"more": means, "fewer": means / ratios}.items()
    }
    of = tuple(StudySetting(f"workload {index}", 80.0, 1.0) for index in range(settings))
    return Violations(of, counts), float(ratios.mean())


def _factors(random: np.random.Generator, deviation: float, shape: tuple[int, ...]) -> Float:
    """Return gamma factors with the mean 1 and a standard deviation."""
    return np.asarray(random.gamma(deviation**-2, deviation**2, shape))


def main() -> None:
    """Print the coverage for each number of repeats."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=1000)
    parser.add_argument("--settings", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    random = np.random.default_rng(arguments.seed)
    for repeats in REPEATS:
        covered, widths = [], []
        for _ in range(arguments.studies):
            violations, truth = drawn(random, arguments.settings, repeats)
            ratio = violations.ratio(["more"], "fewer")
            if ratio.low is not None and ratio.high is not None:
                covered.append(ratio.low <= truth <= ratio.high)
                widths.append(ratio.high - ratio.low)
        without = arguments.studies - len(covered)
        print(
            f"{repeats:2} repeats: {np.mean(covered):.1%} contain the truth, width {np.mean(widths):.2f}, "
            f"{without} studies without an interval"
        )


if __name__ == "__main__":
    main()
