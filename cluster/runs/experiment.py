"""All runs of a scenario: every policy over every repeat, one after the other or in processes."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType

import attrs
import numpy as np

from cluster.errors import DensityError, ScenarioError
from cluster.runs.pool import cores, map_in_processes
from cluster.scenario.scenario import Scenario
from cluster.simulation.faults import make_faults
from cluster.simulation.ledger import check_classes
from cluster.simulation.recorder import RunResult
from cluster.simulation.services import EngineOf, metrics_of, nodes_of
from cluster.simulation.simulation import Simulation
from cluster.simulation.tenant_arrivals import TenantSequence, make_tenants
from cluster.simulation.tenant_pools import Source, read_source
from plb import PlacementAndLoadBalancing
from plb.array_types import Float

SECONDS_BETWEEN_REPORTS = 0.2

Progress = Callable[[str, int, float], None]
"""Called with policy, repeat and the simulated seconds of that run."""


@attrs.frozen(eq=False)
class Experiment:
    """A scenario with the tenants of all its repeats, made before any policy runs."""

    scenario: Scenario
    """The scenario."""
    source: Source
    """The workload of the first repeat."""
    sequences: tuple[TenantSequence, ...]
    """The tenants of each repeat; all policies see the same tenants."""
    engine_of: EngineOf = PlacementAndLoadBalancing
    """Makes the engines."""

    @property
    def pairs(self) -> list[tuple[str, int]]:
        """Policy and repeat of every run, in the order in which they start."""
        return [(policy, repeat) for repeat in range(len(self.sequences)) for policy in self.scenario.run.policies]

    def runs(self, *, jobs: int = 1, progress: Progress | None = None) -> Iterator[RunResult]:
        """Run everything and yield the results as they end; they do not depend on the number of processes.

        Ctrl-C ends the runs under way; they are yielded last, as incomplete. With several processes, a second Ctrl-C
        raises `KeyboardInterrupt`. With one process, `progress` is called at every metering; with several, another
        thread calls it a few times a second.
        """
        jobs = min(jobs, len(self.pairs))
        return self._in_turn(progress) if jobs == 1 else self._in_processes(jobs, progress)

    def _in_turn(self, progress: Progress | None) -> Iterator[RunResult]:
        """Yield the results of all runs, made in this process, up to the first incomplete one."""
        for pair in self.pairs:
            report = None if progress is None else partial(progress, *pair)
            run = _simulate(self.scenario, self.source, self.sequences[pair[1]], self.engine_of, pair, report)
            yield run
            if not run.complete:
                return

    def _in_processes(self, jobs: int, progress: Progress | None) -> Iterator[RunResult]:
        """Yield the results of the runs, made in `jobs` processes, as they end; runs that never began are left out."""
        threads = {"threads": max(1, cores() // jobs)}
        scenario = attrs.evolve(self.scenario, engine={**threads, **self.scenario.engine})
        with _shared_times(len(self.pairs)) as times, _stopped_by_interrupt(times), _relay(times, self.pairs, progress):
            runs = [
                partial(_simulate, scenario, self.source, self.sequences[pair[1]], self.engine_of, pair)
                for pair in self.pairs
            ]
            for run in map_in_processes(partial(_report_to, times), enumerate(runs), jobs=jobs):
                if run is not None:
                    yield run


def _simulate(
    scenario: Scenario,
    source: Source,
    tenants: TenantSequence,
    engine_of: EngineOf,
    pair: tuple[str, int],
    report: Callable[[float], None] | None,
) -> RunResult:
    """Return the result of the run with policy and repeat `pair`; `engine_of` makes its engine.

    `report` is called at every metering with its simulated seconds.
    """
    policy, repeat = pair
    return Simulation(scenario, source.of_repeat(repeat), tenants, policy, repeat, report, engine_of).run()


# several processes

NOT_BEGUN = -1.0
"""Simulated seconds of a run that has not begun."""
STOP = -1
"""Index of the last shared time; any value but `NOT_BEGUN` there ends the runs."""


@contextmanager
def _shared_times(runs: int) -> Iterator[Float]:
    """Yield an array in a file that all processes map: the simulated seconds of each of `runs`, then `STOP`."""
    with TemporaryDirectory(prefix="plb-") as folder:
        times = np.memmap(Path(folder) / "times", np.float64, "w+", shape=(runs + 1,))
        times[:] = NOT_BEGUN
        yield times


def _report_to(
    times: Float, numbered_run: tuple[int, Callable[[Callable[[float], None]], RunResult]]
) -> RunResult | None:
    """Return the result of a run that reports its seconds to the shared `times`; None if the runs have to end.

    `numbered_run`: the index of the run, and a function that makes it and takes the report.
    """
    index, simulate = numbered_run

    def report(seconds: float) -> None:
        times[index] = seconds
        if times[STOP] != NOT_BEGUN:
            raise KeyboardInterrupt

    return None if times[STOP] != NOT_BEGUN else simulate(report)


@contextmanager
def _stopped_by_interrupt(times: Float) -> Iterator[None]:
    """Let the first Ctrl-C end the runs by the shared `times`; only the main thread receives Ctrl-C."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    former_handler = signal.getsignal(signal.SIGINT)

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        times[STOP] = 1.0
        signal.signal(signal.SIGINT, former_handler)

    signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, former_handler)


@contextmanager
def _relay(times: Float, pairs: Sequence[tuple[str, int]], progress: Progress | None) -> Iterator[None]:
    """Call `progress` from another thread when a run's simulated seconds in the shared `times`, (runs + 1,), change.

    `pairs`: policy and repeat of each run. An exception of `progress` ends the runs, and is raised after them.
    """
    if progress is None:
        yield
        return
    ended = threading.Event()
    with ThreadPoolExecutor(1) as thread:
        relayed = thread.submit(_relay_until, ended, times, pairs, progress)
        try:
            yield
        finally:
            ended.set()
    relayed.result()


def _relay_until(ended: threading.Event, times: Float, pairs: Sequence[tuple[str, int]], progress: Progress) -> None:
    """Call `progress` with policy, repeat and seconds of each run that advances, until `ended` is set.

    `times`: (runs + 1,) seconds of each run; an exception of `progress` sets its last entry, which ends all runs.
    """
    reported = np.full(len(times), NOT_BEGUN)
    try:
        while not ended.wait(SECONDS_BETWEEN_REPORTS):
            current = times.copy()
            for index in np.flatnonzero(current[:STOP] != reported[:STOP]).tolist():
                progress(*pairs[index], float(current[index]))
            reported = current
    except BaseException:
        times[STOP] = 1.0
        raise


def prepare(scenario: Scenario) -> Experiment:
    """Read the workload and draw the tenants of every repeat."""
    source = read_source(scenario)
    make_faults(scenario, nodes_of(scenario.cluster, metrics_of(scenario, source)))  # raises an error for unknown names
    sequences = tuple(_tenants(scenario, source, repeat) for repeat in range(scenario.run.repeats))
    for sequence in sequences:
        check_classes(scenario.workload.growth, sequence.traces)
    return Experiment(scenario, source, sequences)


def _tenants(scenario: Scenario, source: Source, repeat: int) -> TenantSequence:
    """Return the tenants of a repeat; an error names the repeat if others might succeed."""
    try:
        return make_tenants(scenario, source.of_repeat(repeat), repeat)
    except (DensityError, ScenarioError) as error:
        if source.anew is None:
            raise
        where = f"repeat {repeat + 1} of {scenario.run.repeats}"
        if isinstance(error, DensityError):
            raise DensityError(f"{where}: {error}") from error
        problems = [attrs.evolve(problem, message=f"{where}: {problem.message}") for problem in error.problems]
        raise ScenarioError(error.source, problems) from error
