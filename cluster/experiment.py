"""All runs of a scenario: every policy over every repeat, one after the other or in processes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import attrs

from cluster.pools import Source, read_source
from cluster.record import RunResult
from cluster.scenario import Scenario
from cluster.simulation import simulate
from cluster.tenants import TenantSequence, make_tenants

Progress = Callable[[str, int, float], None]
"""Called with policy, repeat and the simulated seconds of that run."""


@attrs.frozen(eq=False)
class Experiment:
    """A scenario with its tenants, made before any policy runs.

    Parameters
    ----------
    scenario, source
        What is run.
    sequences
        The tenants of each repeat; all policies see the same ones.
    """

    scenario: Scenario
    source: Source
    sequences: tuple[TenantSequence, ...]

    @property
    def pairs(self) -> list[tuple[str, int]]:
        """Policy and repeat of every run, in the order in which they start."""
        return [(policy, repeat) for repeat in range(len(self.sequences)) for policy in self.scenario.run.policies]

    def runs(self, *, jobs: int = 1, progress: Progress | None = None) -> Iterator[RunResult]:
        """Run everything and yield the results as they end; they do not depend on the number of processes.

        Parameters
        ----------
        jobs
            Number of processes; 1: this one. An interrupted run is yielded as incomplete, and is then the last one.
        progress
            Called at every metering with one process, and at the end of every run with more.
        """
        return self._in_turn(progress) if jobs == 1 else self._in_processes(jobs, progress)

    def _in_turn(self, progress: Progress | None) -> Iterator[RunResult]:
        for policy, repeat in self.pairs:
            report = _bind(progress, policy, repeat)
            run = simulate(self.scenario, self.source, self.sequences[repeat], policy, repeat, report)
            yield run
            if not run.complete:
                return

    def _in_processes(self, jobs: int, progress: Progress | None) -> Iterator[RunResult]:
        from joblib import Parallel, delayed

        shared = attrs.evolve(self.scenario, engine={"threads": max(1, _cores() // jobs), **self.scenario.engine})
        calls = [
            delayed(simulate)(shared, self.source, self.sequences[repeat], policy, repeat)
            for policy, repeat in self.pairs
        ]
        for run in Parallel(n_jobs=jobs, return_as="generator_unordered")(calls):
            if progress is not None:
                progress(run.policy, run.repeat, float(run.totals["simulated_seconds"]))
            yield run


def prepare(scenario: Scenario) -> Experiment:
    """Read the workload and draw the tenants of every repeat."""
    source = read_source(scenario)
    sequences = tuple(make_tenants(scenario, source, repeat) for repeat in range(scenario.run.repeats))
    return Experiment(scenario, source, sequences)


def _bind(progress: Progress | None, policy: str, repeat: int) -> Callable[[float], None] | None:
    return None if progress is None else lambda seconds: progress(policy, repeat, seconds)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
