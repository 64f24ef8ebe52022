"""All runs of a scenario: every policy over every repeat, one after the other or in processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import attrs

from cluster.errors import DensityError, ScenarioError
from cluster.runs.processes import run_in_processes
from cluster.scenario.scenario import Scenario
from cluster.simulation.engine_setup import metrics_of, nodes_of
from cluster.simulation.faults import make_faults
from cluster.simulation.growth import check_classes
from cluster.simulation.recorder import RunResult
from cluster.simulation.simulation import Simulation
from cluster.simulation.tenant_arrivals import TenantSequence, make_tenants
from cluster.simulation.tenant_pools import Source, read_source

Progress = Callable[[str, int, float], None]
"""Called with policy, repeat and the simulated seconds of that run."""


@attrs.frozen(eq=False)
class Experiment:
    """A scenario with its tenants, made before any policy runs.

    Parameters
    ----------
    scenario, source
        What is run; the source is that of the first repeat.
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

        Ctrl-C ends the runs under way; they are yielded as incomplete, and are the last ones.

        Parameters
        ----------
        jobs
            Number of processes; 1: this one. More are new ones, so a script needs ``if __name__ == "__main__":``.
        progress
            Called at every metering with one process, a few times a second with more.
        """
        if jobs == 1 or len(self.pairs) == 1:
            return self._in_turn(progress)
        return run_in_processes(self.scenario, self.source, self.sequences, self.pairs, jobs, progress)

    def _in_turn(self, progress: Progress | None) -> Iterator[RunResult]:
        for policy, repeat in self.pairs:
            report = None if progress is None else partial(progress, policy, repeat)
            source = self.source.of_repeat(repeat)
            run = Simulation(self.scenario, source, self.sequences[repeat], policy, repeat, report).run()
            yield run
            if not run.complete:
                return


def prepare(scenario: Scenario) -> Experiment:
    """Read the workload and draw the tenants of every repeat."""
    source = read_source(scenario)
    make_faults(scenario, nodes_of(scenario.cluster, metrics_of(scenario, source)))  # raises an error for unknown names
    sequences = tuple(_tenants(scenario, source, repeat) for repeat in range(scenario.run.repeats))
    for sequence in sequences:
        check_classes(scenario.workload.growth, sequence.traces)
    return Experiment(scenario, source, sequences)


def _tenants(scenario: Scenario, source: Source, repeat: int) -> TenantSequence:
    """Draw the tenants of a repeat; an error says which one it is if others might succeed."""
    try:
        return make_tenants(scenario, source.of_repeat(repeat), repeat)
    except (DensityError, ScenarioError) as error:
        if source.anew is None:
            raise
        where = f"repeat {repeat + 1} of {scenario.run.repeats}"
        if isinstance(error, DensityError):
            raise DensityError(f"{where}: {error}") from error
        problems = [attrs.evolve(one, message=f"{where}: {one.message}") for one in error.problems]
        raise ScenarioError(error.source, problems) from error
