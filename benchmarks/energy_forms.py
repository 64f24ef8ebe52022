"""Comparison of energies by violations: the measurement for the defaults in docs/energy.md.

The original energy alone determines the density of each region: the lowest multiple of 0.2, from 1.2 up, with at
least 20 violations in ten days (seed 7). Then all forms run with the same tenants and with new seeds.

    python benchmarks/energy_forms.py [--seeds 3] [--days 10] [--jobs 2] [--regions region1,region2] [--densities 2,2.8]
"""

from __future__ import annotations

import argparse
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from pathlib import Path

import attrs
import numpy as np

from cluster.runs.experiment import prepare
from cluster.scenario.scenario import AS_IN_PAPER, WITHOUT_RISK, Scenario
from cluster.scenario.scenario_file import read_scenario
from cluster.simulation.simulation import Simulation

FORMS = {
    "original": WITHOUT_RISK,
    "as recorded, w_I = 10": {"replay": "as_recorded", "w_imbalance": 10.0},
    "anchored, w_I = 1": {"w_imbalance": 1.0},
    "anchored, w_I = 10": {"w_imbalance": 10.0},
    "anchored, w_I = 100": {"w_imbalance": 100.0},
    "anchored, product form": {"combination": "service_fabric"},
}
ENOUGH_VIOLATIONS = 20
CHOOSING_SEED = 7
FIRST_SEED = 200


def scenario_for(region: str, density: float, seed: int, days: float) -> Scenario:
    """Return the quick start in another region, with the energies as policies."""
    base = read_scenario(Path(__file__).parent.parent / "examples" / "quickstart.toml")
    policies = {name: {**AS_IN_PAPER, **fields} for name, fields in FORMS.items()}
    return attrs.evolve(
        base,
        workload=attrs.evolve(base.workload, region=region, density=density),
        run=attrs.evolve(base.run, seed=seed, days=days, policies=tuple(FORMS)),
        policies=policies,
    )


def violations(region: str, density: float, seed: int, days: float, form: str) -> int:
    """Return the violations of one run."""
    scenario = scenario_for(region, density, seed, days)
    experiment = prepare(scenario)
    return int(Simulation(scenario, experiment.source, experiment.sequences[0], form).run().totals["violations"])


def density_for(region: str, days: float) -> float:
    """Return the lowest density with enough violations of the original energy."""
    for fifths in range(6, 30):
        if violations(region, fifths / 5, CHOOSING_SEED, days, "original") >= ENOUGH_VIOLATIONS:
            return fifths / 5
    raise SystemExit(f"{region}: no density up to 6 causes {ENOUGH_VIOLATIONS} violations")


def main() -> None:
    """Measure, and print one table per region and the mean ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--days", type=float, default=10.0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--regions", default="region1,region2,region3,region4")
    parser.add_argument("--densities", help="known densities, one per region")
    options = parser.parse_args()
    regions = options.regions.split(",")
    seeds = range(FIRST_SEED, FIRST_SEED + options.seeds)
    with ProcessPoolExecutor(options.jobs, multiprocessing.get_context("spawn")) as pool:
        if options.densities:
            found_densities = [float(density) for density in options.densities.split(",")]
        else:
            found_densities = list(pool.map(density_for, regions, repeat(options.days)))
        densities = dict(zip(regions, found_densities, strict=True))
        cases = [(region, form, seed) for region in regions for form in FORMS for seed in seeds]
        counts = [pool.submit(violations, r, densities[r], s, options.days, f) for r, f, s in cases]
        found = {case: count.result() for case, count in zip(cases, counts, strict=True)}
    print(f"| form | {' | '.join(f'{r}, {densities[r]:g}' for r in regions)} | original / form |")
    print("|---" * (len(regions) + 2) + "|")
    for form in FORMS:
        means = [np.mean([found[region, form, seed] for seed in seeds]) for region in regions]
        original = [np.mean([found[region, "original", seed] for seed in seeds]) for region in regions]
        ratios = [o / m for o, m in zip(original, means, strict=True) if m > 0]
        ratio = f"{np.mean(ratios):.2f}" if len(ratios) == len(regions) else f"{np.mean(ratios):.2f} ({len(ratios)})"
        print(f"| {form} | {' | '.join(f'{mean:.1f}' for mean in means)} | {ratio} |")


if __name__ == "__main__":
    main()
