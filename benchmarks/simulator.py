"""Speed of the simulator: CPU seconds of each run of a scenario, without loading of kernels.

Sampling of tenants, loading of kernels and writing of results are excluded. The first line has the time of loading: a
run of a few simulated hours of each policy, which compiles kernels that are not in the cache.

    python benchmarks/simulator.py
    python benchmarks/simulator.py examples/quickstart.toml --profile
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import time
from pathlib import Path

import attrs

from cluster.runs.experiment import Experiment, prepare
from cluster.scenario.scenario import Scenario
from cluster.scenario.scenario_file import read_scenario
from cluster.simulation.simulation import Simulation

QUICKSTART = Path(__file__).parent.parent / "examples" / "quickstart.toml"
WARM_UP_DAYS = 0.25
LINES_OF_PROFILE = 40


def load_kernels(scenario: Scenario) -> float:
    """Run every policy for a few hours, and return the CPU seconds."""
    began = time.process_time()
    brief = attrs.evolve(scenario, run=attrs.evolve(scenario.run, days=WARM_UP_DAYS, fill_hours=0.0, repeats=1))
    for _ in prepare(brief).runs():
        pass
    return time.process_time() - began


def cpu_seconds(experiment: Experiment, policy: str) -> float:
    """Return the CPU seconds of one run, in all threads."""
    began = time.process_time()
    Simulation(experiment.scenario, experiment.source, experiment.sequences[0], policy).run()
    return time.process_time() - began


def print_profile(experiment: Experiment, policy: str) -> None:
    """Print a profile of one run, by the time in each function itself."""
    with cProfile.Profile() as profile:
        Simulation(experiment.scenario, experiment.source, experiment.sequences[0], policy).run()
    pstats.Stats(profile).sort_stats("tottime").print_stats(LINES_OF_PROFILE)


def main() -> None:
    """Print one line per policy of the scenario: the best of several runs."""
    parser = argparse.ArgumentParser(description="CPU seconds of every policy of a scenario")
    parser.add_argument("scenario", nargs="?", type=Path, default=QUICKSTART)
    parser.add_argument("--runs", type=int, default=3, help="runs of each policy; the fastest and the median count")
    parser.add_argument("--profile", action="store_true", help="print a profile instead")
    given = parser.parse_args()
    scenario = read_scenario(given.scenario)
    print(f"{'loading':>10}  {load_kernels(scenario):6.2f} s CPU", flush=True)
    experiment = prepare(scenario)
    for policy in scenario.run.policies:
        if given.profile:
            print_profile(experiment, policy)
            continue
        seconds = sorted(cpu_seconds(experiment, policy) for _ in range(given.runs))
        print(f"{policy:>10}  {seconds[0]:6.2f} s CPU at best, {seconds[len(seconds) // 2]:.2f} s median", flush=True)


if __name__ == "__main__":
    main()
