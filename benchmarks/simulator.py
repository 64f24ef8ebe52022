"""Speed of the simulator: CPU seconds of each run of a scenario, without loading of kernels.

Sampling of tenants, loading of kernels and writing of results are excluded. The first line has the time of loading: a
run of a few simulated hours of each policy, which compiles kernels that are not in the cache. Without a scenario, five
policies run on the forty nodes of the quick start.

    python benchmarks/simulator.py
    python benchmarks/simulator.py --shares
    python benchmarks/simulator.py examples/quickstart.toml --profile
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any
from unittest.mock import patch

import attrs

from cluster.runs.experiment import Experiment, prepare
from cluster.scenario.scenario import Scenario
from cluster.scenario.scenario_file import read_scenario
from cluster.simulation.recorder import RunResult
from cluster.simulation.simulation import Simulation
from plb import PlacementAndLoadBalancing
from plb.planning.phases import PhaseRun

QUICKSTART = Path(__file__).parent.parent / "examples" / "quickstart.toml"
POLICIES = ("original", "modified", "worst_fit_sum", "prv_worst_fit", "first_fit")
"""Policies without a scenario."""
WARM_UP_DAYS = 0.25
LINES_OF_PROFILE = 40
PLANS = ("place", "repair", "balance")
"""The methods of an engine that make plans, and those of its searches."""
CALLS = ("apply", "remove_partition", "replicas", "report_loads", "update_node", "update_partition", "update_service")
"""The other methods of an engine that a run calls, with `vacate`."""


class Shares:
    """CPU seconds by part, each without the parts that it calls.

    Attributes
    ----------
    seconds
        By part: ``"search"``; ``"plans"``, the engine around a search; ``"calls"``, other calls of the engine;
        ``"simulator"``, all else.
    """

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(("search", "plans", "calls", "simulator"), 0.0)
        self._part = "simulator"
        self._since = time.process_time()

    def _enter(self, part: str) -> str:
        """Count the time for another part from now on, and return the part of before."""
        now = time.process_time()
        self.seconds[self._part] += now - self._since
        self._since, before, self._part = now, self._part, part
        return before

    def counted(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function whose time counts for a part."""

        @wraps(function)
        def call(*arguments: Any, **named: Any) -> Any:
            before = self._enter(part)
            try:
                return function(*arguments, **named)
            finally:
                self._enter(before)

        return call

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count until the end of the context."""
        engine = PlacementAndLoadBalancing
        parts = [(PhaseRun, name, "search") for name in PLANS] + [(engine, name, "plans") for name in PLANS]
        parts += [(engine, name, "calls") for name in (*CALLS, "vacate")]
        patches = [patch.object(kind, name, self.counted(part, getattr(kind, name))) for kind, name, part in parts]
        for one in patches:
            one.start()
        self._since = time.process_time()
        try:
            yield
        finally:
            self._enter("simulator")
            for one in patches:
                one.stop()


def load_kernels(scenario: Scenario) -> float:
    """Run every policy for a few hours, and return the CPU seconds."""
    began = time.process_time()
    brief = attrs.evolve(scenario, run=attrs.evolve(scenario.run, days=WARM_UP_DAYS, fill_hours=0.0, repeats=1))
    for _ in prepare(brief).runs():
        pass
    return time.process_time() - began


def run(experiment: Experiment, policy: str) -> RunResult:
    """Return the result of one run."""
    return Simulation(experiment.scenario, experiment.source, experiment.sequences[0], policy).run()


def cpu_seconds(experiment: Experiment, policy: str) -> tuple[float, int]:
    """Return the CPU seconds of one run, in all threads, and its number of placements."""
    began = time.process_time()
    result = run(experiment, policy)
    return time.process_time() - began, placements_of(result)


def placements_of(result: RunResult) -> int:
    """Return the number of plans that place replicas."""
    return int((result.tables["plans"]["occasion"] != "constraint check").sum())


def print_shares(experiment: Experiment, policy: str) -> None:
    """Print the CPU seconds of the parts of one run, and their shares."""
    shares = Shares()
    with shares.counting():
        run(experiment, policy)
    total = sum(shares.seconds.values())
    parts = ", ".join(f"{part} {seconds:.2f} s ({seconds / total:.0%})" for part, seconds in shares.seconds.items())
    print(f"{policy:>17}  {parts}", flush=True)


def print_profile(experiment: Experiment, policy: str) -> None:
    """Print a profile of one run, by the time in each function itself."""
    with cProfile.Profile() as profile:
        run(experiment, policy)
    pstats.Stats(profile).sort_stats("tottime").print_stats(LINES_OF_PROFILE)


def scenario_of(path: Path | None) -> Scenario:
    """Return the scenario of a file; None: that of the quick start, with five policies."""
    scenario = read_scenario(QUICKSTART if path is None else path)
    return scenario if path else attrs.evolve(scenario, run=attrs.evolve(scenario.run, policies=POLICIES))


def main() -> None:
    """Print one line per policy of the scenario: the best of several runs."""
    parser = argparse.ArgumentParser(description="CPU seconds of every policy of a scenario")
    parser.add_argument("scenario", nargs="?", type=Path)
    parser.add_argument("--runs", type=int, default=3, help="runs of each policy; the fastest and the median count")
    parser.add_argument("--shares", action="store_true", help="print the time in each part of a run instead")
    parser.add_argument("--profile", action="store_true", help="print a profile instead")
    given = parser.parse_args()
    scenario = scenario_of(given.scenario)
    print(f"{'loading':>17}  {load_kernels(scenario):6.2f} s CPU", flush=True)
    experiment = prepare(scenario)
    for policy in scenario.run.policies:
        if given.profile or given.shares:
            (print_profile if given.profile else print_shares)(experiment, policy)
            continue
        runs = sorted(cpu_seconds(experiment, policy) for _ in range(given.runs))
        (best, placements), (median, _) = runs[0], runs[len(runs) // 2]
        print(f"{policy:>17}  {best:6.2f} s CPU at best, {median:.2f} s median, {placements:,} placements", flush=True)


if __name__ == "__main__":
    main()
