"""Sources of tenants: past tenants for the demand history and disjoint ones to simulate."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Protocol

import attrs
import numpy as np

from cluster.errors import refusal
from cluster.scenario.scenario import Scenario
from cluster.scenario.workload_section import Workload
from cluster.simulation.recorded_arrivals import RecordedPool
from cluster.simulation.trace_inputs import TraceInputs, digest_of_traces, read_inputs
from cluster.simulation.trace_split import rule_of, seed_of_repeat, split_traces
from plb import UnknownNameError
from plb.risk import DemandHistory
from workloads.region_parameters import RegionParameters
from workloads.trace import MetricInfo, TraceSet

if TYPE_CHECKING:
    from cluster.simulation.planned_tenants import PlanPool

SIMULATION_BLOCKS = 4096
"""Number of blocks of tenants that a synthetic region offers to a run; about a million tenants."""


class TenantPool(Protocol):
    """Tenants to simulate."""

    def batches(self, rng: np.random.Generator) -> Iterator[TraceSet]:
        """Yield all tenants in random order, each once, in batches."""


@attrs.frozen
class RegionPool:
    """The tenants of a synthetic region outside the history, generated on demand.

    Parameters
    ----------
    region
        The region.
    seed
        Seed of the region.
    first_tenant
        Number of the first tenant of the pool; a multiple of the block size.
    """

    region: RegionParameters
    seed: int
    first_tenant: int

    def batches(self, rng: np.random.Generator) -> Iterator[TraceSet]:
        """Yield whole blocks in random order, each shuffled; all blocks have the same distribution."""
        from workloads.regions import BLOCK, generate

        used: set[int] = set()
        while len(used) < SIMULATION_BLOCKS:
            block = int(rng.integers(SIMULATION_BLOCKS))
            if block not in used:
                used.add(block)
                tenants = generate(self.region, BLOCK, self.seed, self.first_tenant + block * BLOCK)
                yield tenants.select(rng.permutation(BLOCK))


@attrs.frozen(eq=False)
class TracePool:
    """Tenants of real traces.

    Parameters
    ----------
    traces
        The traces.
    """

    traces: TraceSet

    def batches(self, rng: np.random.Generator) -> Iterator[TraceSet]:
        """Yield the tenants in random order, a thousand at a time."""
        order = rng.permutation(self.traces.tenants)
        for start in range(0, len(order), 1000):
            yield self.traces.select(order[start : start + 1000])


@attrs.frozen(eq=False)
class Source:
    """A workload that was read or generated.

    Parameters
    ----------
    metrics
        Its metrics.
    step_seconds
        Sampling interval of its traces.
    history
        The past tenants; None: there are none.
    history_families
        Families of the past tenants (see `workloads.trace.TraceSet`); empty if they are from other traces.
    pool
        The tenants to simulate: a pool to sample from, recorded ones, or those of a plan.
    split
        How history and simulated tenants were separated, as plain values for the results; those of the first repeat.
    anew
        Returns the source of a repeat; None: it is the same for all.
    """

    metrics: tuple[MetricInfo, ...]
    step_seconds: float
    history: DemandHistory | None
    history_families: np.ndarray[Any, np.dtype[np.int64]]
    pool: TenantPool | RecordedPool | PlanPool
    split: Mapping[str, Any]
    anew: Callable[[int], Source] | None = None

    def of_repeat(self, repeat: int) -> Source:
        """Return the source of a repeat, which differs if each repeat splits or resamples the traces anew."""
        return self if self.anew is None else self.anew(repeat)

    def largest_demand(self) -> Mapping[str, float]:
        """Return the largest demand of a past replica by metric; without a history, the largest MaxUsage."""
        if self.history is not None:
            return dict(zip(self.history.metrics, self.history.maximum.max(axis=0).tolist(), strict=True))
        assert isinstance(self.pool, TracePool | RecordedPool)
        return dict(zip(self.pool.traces.metric_names, self.pool.traces.max_usage.max(axis=0).tolist(), strict=True))


def read_source(scenario: Scenario) -> Source:
    """Read or generate the workload of a scenario.

    Raises
    ------
    ScenarioError
        A policy of the run samples past tenants and there are none, or a part of the workload is missing or invalid.
    """
    scenario.check_history()
    workload = scenario.workload
    if workload.kind == "plan":
        source = _from_plan(scenario)
    else:
        source = _from_region(workload) if workload.kind == "region" else _from_traces(workload)
    _check_metrics(scenario, source)
    return source


def _check_metrics(scenario: Scenario, source: Source) -> None:
    names = [metric.name for metric in source.metrics]
    if scenario.workload.density_metric not in names:
        raise UnknownNameError("metric", scenario.workload.density_metric, names, "workload.density_metric")
    if scenario.cluster.capacities is not None:
        for name in scenario.cluster.capacities:
            if name not in names:
                raise UnknownNameError("metric", name, names, "cluster.capacities")
    if scenario.workload.density_metric not in scenario.cluster.capacity:
        message = f"needs a capacity of {scenario.workload.density_metric!r}, the metric of the tenant density"
        raise refusal(scenario.name, "cluster.capacities", message)
    if scenario.cluster.capacity[scenario.workload.density_metric] <= 0:
        message = f"a capacity of 0 of {scenario.workload.density_metric!r} leaves the tenant density undefined"
        raise refusal(scenario.name, "cluster.capacities", message)


def _from_region(workload: Workload) -> Source:
    from workloads.classes import METRICS
    from workloads.regions import BLOCK, generate_history
    from workloads.trace import STEP_SECONDS

    parameters, count = workload.parameters_of_region(), workload.history_tenants
    first = -(-count // BLOCK) * BLOCK
    split = {
        "rule": "by number: the history is tenants 0 to history_tenants - 1, the simulation from first_tenant on",
        "region": workload.region,
        "region_parameters": dict(workload.region_parameters),
        "region_digest": parameters.digest(),
        "trace_seed": workload.trace_seed,
        "history_tenants": count,
        "first_tenant": first,
    }
    history = generate_history(parameters, count, workload.trace_seed)
    pool = RegionPool(parameters, workload.trace_seed, first)
    return Source(METRICS, STEP_SECONDS, history, np.arange(count), pool, split)


def _from_traces(workload: Workload) -> Source:
    from workloads.compression import compress

    inputs, history = read_inputs(workload), None
    origin: dict[str, Any] = {"traces": workload.kind, "traces_digest": digest_of_traces(inputs.traces)}
    if inputs.others is not None:
        history = compress(inputs.others)
        origin["history_digest"] = digest_of_traces(attrs.evolve(inputs.others, start=None))
    inputs = attrs.evolve(inputs, history=history, origin=origin)
    source = _source_of_traces(workload, inputs, 0)
    if workload.each_repeat == "same":
        return source
    if workload.history == "before":
        inputs = attrs.evolve(inputs, history=source.history)
    return attrs.evolve(source, anew=partial(_source_of_repeat, workload, inputs))


@lru_cache(maxsize=1)  # policies with the same repeat are consecutive, and traces are large
def _source_of_repeat(workload: Workload, inputs: TraceInputs, repeat: int) -> Source:
    return _source_of_traces(workload, inputs, repeat)


def _source_of_traces(workload: Workload, inputs: TraceInputs, repeat: int) -> Source:
    """Return the source of a repeat."""
    from workloads.compression import compress

    past, rest = split_traces(inputs.traces, workload, seed_of_repeat(workload, repeat), inputs.begin)
    history = inputs.history
    if history is None and past.tenants:
        history = compress(past)
    families = np.unique(past.family)
    split = {
        "rule": rule_of(workload),
        **inputs.origin,
        "trace_seed": workload.trace_seed,
        **({} if workload.replaces_share else {"history_share": workload.history_share}),
        "history_tenants": (past if inputs.others is None else inputs.others).tenants,
        "simulation_tenants": rest.tenants,
        "history_families": families.tolist(),
    }
    recorded = workload.arrivals == "recorded"
    pool = RecordedPool(rest, inputs.begin, inputs.end) if recorded else TracePool(rest)
    return Source(inputs.traces.metrics, inputs.traces.step_seconds, history, families, pool, split)


def _from_plan(scenario: Scenario) -> Source:
    from cluster.simulation.planned_tenants import read_plan_pool

    pool = read_plan_pool(scenario)
    traces, workload = pool.tenants.traces, scenario.workload
    split = {
        "rule": "none: the demand of a plan is known in advance, so the history has the curve of each application",
        "instance": workload.path,
        "plan": workload.plan,
        "traces_digest": digest_of_traces(traces),
        "simulation_tenants": traces.tenants,
        "plan_nodes": len(pool.place),
    }
    no_families = np.empty(0, np.int64)
    return Source(traces.metrics, traces.step_seconds, pool.tenants.history(), no_families, pool, split)
