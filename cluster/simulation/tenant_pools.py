"""Sources of tenants: past tenants for the demand history, and disjoint tenants to simulate."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol

import attrs
import numpy as np

from cluster.errors import refusal
from cluster.scenario.scenario import Scenario
from cluster.scenario.workload_sections import Workload
from cluster.simulation.recorded_arrivals import RecordedPool, mean_demand, recorded_span
from plb import ConflictError, PlbError
from plb.array_types import Int
from plb.provisioning import ProvisioningPlan
from plb.risk import DemandHistory
from plb.validation import check_known
from workloads.compression import compress
from workloads.provisioning import NodeSpec, read_instance, read_plan
from workloads.provisioning.plans import parse_nodes
from workloads.provisioning.tenants import PlannedTenants, tenants_of_plan
from workloads.provisioning.user_units import user_nodes
from workloads.region_parameters import METRICS, RegionParameters
from workloads.regions import BLOCK, generate, generate_history
from workloads.trace import (
    DAY_SECONDS,
    HOUR_SECONDS,
    STEP_SECONDS,
    MetricInfo,
    TraceSet,
    sample_demand,
    sample_families,
    split_tenants,
)

SIMULATION_BLOCKS = 4096
"""Number of blocks of tenants that a synthetic region offers to a run; about a million tenants."""


class TenantPool(Protocol):
    """Tenants to simulate, in random order."""

    def batches(self, rng: np.random.Generator) -> Iterator[TraceSet]:
        """Yield all tenants in random order, each once, in batches."""


@attrs.frozen
class RegionPool:
    """The tenants of a synthetic region outside the history, generated on demand."""

    region: RegionParameters
    """The region."""
    seed: int
    """Seed of the region."""
    first_tenant: int
    """Number of the first tenant of the pool; a multiple of the block size."""

    def batches(self, rng: np.random.Generator) -> Iterator[TraceSet]:
        """Yield whole blocks in random order, each shuffled; all blocks have the same distribution."""
        used: set[int] = set()
        while len(used) < SIMULATION_BLOCKS:
            block = int(rng.integers(SIMULATION_BLOCKS))
            if block not in used:
                used.add(block)
                tenants = generate(self.region, BLOCK, self.seed, self.first_tenant + block * BLOCK)
                yield tenants.select(rng.permutation(BLOCK))


@attrs.frozen(eq=False)
class TracePool:
    """Tenants of real traces."""

    traces: TraceSet
    """The traces."""

    def batches(self, rng: np.random.Generator) -> Iterator[TraceSet]:
        """Yield the tenants in random order, a thousand at a time."""
        order = rng.permutation(self.traces.tenants)
        for start in range(0, len(order), 1000):
            yield self.traces.select(order[start : start + 1000])


@attrs.frozen(eq=False)
class PlanPool:
    """The tenants of a plan, and their nodes."""

    tenants: PlannedTenants
    """The tenants."""
    place: Int
    """(N,) index of the cluster's node for each node of the plan, in the order of `PlannedTenants`."""


@attrs.frozen(eq=False)
class Source:
    """A workload that was read or generated."""

    metrics: tuple[MetricInfo, ...]
    """Its metrics."""
    step_seconds: float
    """Sampling interval of its traces."""
    history: DemandHistory | None
    """The past tenants; None: there are none."""
    history_families: np.ndarray[Any, np.dtype[np.int64]]
    """Families of the past tenants (see `workloads.trace.TraceSet`); empty if they are from other traces."""
    pool: TenantPool | RecordedPool | PlanPool
    """The tenants to simulate: a pool to sample from, recorded tenants or planned tenants."""
    split: Mapping[str, Any]
    """How history and simulated tenants were separated, as plain values for the results; in the first repeat."""
    anew: Callable[[int], Source] | None = None
    """Returns the source of a repeat, given its number; None: all repeats have this source."""

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
    """Read or generate the workload of a scenario."""
    scenario.check_history()
    workload = scenario.workload
    if workload.kind == "plan":
        source = _from_plan(scenario)
    else:
        source = _from_region(workload) if workload.kind == "region" else _from_traces(scenario)
    _check_metrics(scenario, [metric.name for metric in source.metrics])
    return source


def _check_metrics(scenario: Scenario, metric_names: Sequence[str]) -> None:
    """Raise an error if the density or a capacity is in a metric that `metric_names` lacks, or it has no capacity."""
    check_known("metric", scenario.workload.density_metric, metric_names, "workload.density_metric")
    if scenario.cluster.capacities is not None:
        for name in scenario.cluster.capacities:
            check_known("metric", name, metric_names, "cluster.capacities")
    if scenario.workload.density_metric not in scenario.cluster.capacity:
        message = f"needs a capacity of {scenario.workload.density_metric!r}, the metric of the tenant density"
        raise refusal(scenario.name, "cluster.capacities", message)
    if scenario.cluster.capacity[scenario.workload.density_metric] <= 0:
        message = f"a capacity of 0 of {scenario.workload.density_metric!r} leaves the tenant density undefined"
        raise refusal(scenario.name, "cluster.capacities", message)


def seed_of_repeat(workload: Workload, repeat: int) -> int:
    """Return the seed with which a repeat splits the traces: the same for all, unless each splits anew."""
    return workload.trace_seed + (repeat if workload.each_repeat != "same" else 0)


def split_traces(inputs: TraceInputs, workload: Workload, seed: int) -> tuple[TraceSet, TraceSet]:
    """Return the tenants of the history, perhaps none, and the tenants to simulate; `seed`: of the random split."""
    traces, begin = inputs.traces, inputs.begin
    if workload.history == "before":
        assert traces.start is not None
        ended = traces.start + traces.lifetime_seconds <= begin
        past, simulated = traces.select(ended), traces.select(~ended)
        if not past.tenants:
            message = (
                f"no tenant ended before hour {workload.from_hours:g}, so there is no history; use a later "
                "workload.from_hours or another history"
            )
            raise refusal("scenario", "workload.history", message)
        if not simulated.tenants:
            message = f"all {traces.tenants:,} tenants ended before hour {workload.from_hours:g}"
            raise refusal("scenario", "workload.from_hours", message)
    else:
        share = 0.0 if workload.history_path is not None else workload.history_share
        past, simulated = split_tenants(traces, share, seed)
        if not simulated.tenants or (share > 0.0 and not past.tenants):
            message = f"{traces.tenants} tenants cannot be split into history and simulation; use more traces"
            raise refusal("scenario", "workload.history_share", message)
    resampled = workload.each_repeat == "resample"
    if workload.utilisation is not None:
        metric = traces.metric_names.index(workload.density_metric)
        demand = mean_demand(simulated, begin, inputs.run_seconds, metric)
        try:
            simulated = sample_demand(simulated, demand, workload.utilisation * inputs.capacity, seed)
        except PlbError as error:
            message = f"{workload.utilisation:g}: from hour {workload.from_hours:g} on, {error}"
            raise refusal("scenario", "workload.utilisation", message) from None
    elif resampled or workload.simulated_share < 1.0:
        simulated = sample_families(simulated, workload.simulated_share, seed, replace=resampled)
    return past, simulated


def rule_of(workload: Workload) -> str:
    """Return how past and simulated tenants are separated, in words."""
    if workload.history == "before":
        rule = "the tenants that ended before the begin of the run are the history"
    elif workload.history_path is not None:
        rule = "the history is from other traces"
    elif workload.history_share == 0.0:
        rule = "there is no history"
    else:
        rule = "families of tenants sampled at random into history and simulation (workloads.trace)"
    suffixes = {"split": "; anew in each repeat", "resample": "; simulated families resampled in each repeat"}
    return rule + suffixes.get(workload.each_repeat, "")


def check_other_traces(workload: Workload, traces: TraceSet, past: TraceSet) -> None:
    """Raise an error if `past`, a history from other traces, does not fit the traces to simulate.

    It has to have the same metrics, and no tenant with the name and the demand of a tenant of `traces`.
    """
    key = "workload.history_path"
    if past.metrics != traces.metrics:
        past_metrics, expected_metrics = (
            ", ".join(f"{metric.name} in {metric.unit}" for metric in trace_set.metrics) for trace_set in (past, traces)
        )
        if past_metrics == expected_metrics:
            past_metrics, expected_metrics = (
                "trends of " + ", ".join(m.name for m in trace_set.metrics if m.trend) for trace_set in (past, traces)
            )
        raise refusal(
            "scenario",
            key,
            f"{workload.history_path} has {past_metrics}; expected the metrics of the traces: {expected_metrics}",
        )
    common_names, rows, past_rows = np.intersect1d(traces.tenant_names(), past.tenant_names(), return_indices=True)
    for name, row, past_row in zip(common_names.tolist(), rows.tolist(), past_rows.tolist(), strict=True):
        if np.array_equal(_demand_of(traces, row), _demand_of(past, past_row)):
            raise ConflictError(f"{key}: tenant {name} of {Path(workload.history_path or '')} is simulated, too")


def _demand_of(traces: TraceSet, tenant: int) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    """Return the demand of all series of a tenant, one after the other, (samples, R)."""
    series = traces.series_index[tenant]
    spans = [slice(*traces.series_start[row : row + 2]) for row in series[series >= 0].tolist()]
    return np.concatenate([traces.values[span] for span in spans])


@attrs.frozen(eq=False)
class TraceInputs:
    """What was read for a workload of real traces."""

    traces: TraceSet
    """All tenants; without starts if arrivals are generated."""
    others: TraceSet | None
    """The tenants of a history from other traces, or None."""
    begin: float = 0.0
    """Begin of the run, in seconds since the origin of the traces; 0 without starts."""
    end: float = 0.0
    """End of the recorded time, in seconds since the origin of the traces; 0 without starts."""
    run_seconds: float = 0.0
    """Duration of the run."""
    capacity: float = 0.0
    """Capacity of the whole cluster for the metric of the density."""
    history: DemandHistory | None = None
    """The history that all repeats have; None: it follows from the split of each."""
    origin: Mapping[str, Any] = attrs.field(factory=dict)
    """What was read, as plain values for the results."""


def read_inputs(scenario: Scenario) -> TraceInputs:
    """Read the traces of a scenario whose workload is of kind ``"traces"`` or ``"bitbrains"``."""
    workload = scenario.workload
    traces, begin, end = read_traces_of(workload), 0.0, 0.0
    if workload.arrivals == "recorded":
        first_start, end = recorded_span(traces)
        begin = first_start + workload.from_hours * HOUR_SECONDS
    else:
        traces = attrs.evolve(traces, start=None)
    history_traces = None
    if workload.history_path is not None:
        history_traces = read_traces_of(workload, workload.history_path, "history_path")
        check_other_traces(workload, traces, history_traces)
    _check_metrics(scenario, traces.metric_names)
    capacity = scenario.cluster.total_capacity(workload.density_metric)
    return TraceInputs(traces, history_traces, begin, end, DAY_SECONDS * scenario.run.days, capacity)


def check_inputs(scenario: Scenario) -> None:
    """Raise an error if the traces of a workload cannot be read, or not be split for its first repeat."""
    split_traces(read_inputs(scenario), scenario.workload, seed_of_repeat(scenario.workload, 0))


def digest_of_traces(traces: TraceSet) -> str:
    """Return the SHA-256 of the contents of traces, in hexadecimal digits."""
    digest = sha256()
    for name, value in attrs.asdict(traces, recurse=False).items():
        if value is None:
            continue  # a field that is not set does not count, so that a new field changes no digest
        # the bytes of an array of objects are addresses
        hashable = value.tolist() if isinstance(value, np.ndarray) and value.dtype.hasobject else value
        content = hashable.tobytes() if isinstance(hashable, np.ndarray) else repr(hashable).encode()
        digest.update(f"{name} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()


def read_traces_of(workload: Workload, path: str | None = None, field: str = "path") -> TraceSet:
    """Read the traces in a directory, in the format of a workload's traces.

    `path`: the directory, by default the workload's own; `field`: the field of the workload that errors name.
    """
    path = workload.path if path is None else path
    if path is None:
        message = f"kind = {workload.kind!r} reads traces: give their directory here or with --traces"
        raise refusal("scenario", "workload.path", message)
    if not Path(path).is_dir():
        raise refusal("scenario", f"workload.{field}", f"no such directory: {path}")
    if workload.kind == "bitbrains":
        from workloads.readers import READERS, Options, read_public

        return read_public(READERS["bitbrains"], path, Options(window_days=workload.window_days))[0]
    from workloads.trace_files import read_traces

    return read_traces(path)


def _from_region(workload: Workload) -> Source:
    """Return the tenants of a synthetic region: the history by number, the others on demand."""
    parameters, count = workload.parameters_of_region(), workload.history_tenants
    first_simulated = -(-count // BLOCK) * BLOCK
    split = {
        "rule": "by number: the history is tenants 0 to history_tenants - 1, the simulation from first_tenant on",
        "region": workload.region,
        "region_parameters": dict(workload.region_parameters),
        "region_digest": parameters.digest(),
        "trace_seed": workload.trace_seed,
        "history_tenants": count,
        "first_tenant": first_simulated,
    }
    history = generate_history(parameters, count, workload.trace_seed)
    pool = RegionPool(parameters, workload.trace_seed, first_simulated)
    return Source(METRICS, STEP_SECONDS, history, np.arange(count), pool, split)


def _from_traces(scenario: Scenario) -> Source:
    """Read real traces; if each repeat splits or resamples them anew, the source makes the source of each."""
    workload = scenario.workload
    inputs, history = read_inputs(scenario), None
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
    """Return the source of a repeat of a workload of real traces."""
    return _source_of_traces(workload, inputs, repeat)


def _source_of_traces(workload: Workload, inputs: TraceInputs, repeat: int) -> Source:
    """Return the source of a repeat of a workload, split from the traces that were read."""
    past, simulated = split_traces(inputs, workload, seed_of_repeat(workload, repeat))
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
        "simulation_tenants": simulated.tenants,
        "history_families": families.tolist(),
    }
    recorded = workload.arrivals == "recorded"
    pool = RecordedPool(simulated, inputs.begin, inputs.end) if recorded else TracePool(simulated)
    return Source(inputs.traces.metrics, inputs.traces.step_seconds, history, families, pool, split)


def _from_plan(scenario: Scenario) -> Source:
    """Return the planned tenants, with the curves of their applications as history."""
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


FAULTS_SHOWN = 3
"""Number of faults that the message about an invalid plan lists."""


def read_plan_pool(scenario: Scenario) -> PlanPool:
    """Read the plan of a scenario, and map the nodes of the plan to nodes of the cluster."""
    workload = scenario.workload
    for name, meaning in (("path", "the instance that was planned"), ("plan", "the file of the plan")):
        if getattr(workload, name) is None:
            raise refusal(scenario.name, f"workload.{name}", f'kind = "plan" needs {meaning}')
    assert workload.path is not None
    assert workload.plan is not None
    instance = read_instance(workload.path, parse_nodes(workload.nodes) if workload.nodes else None)
    plan = read_plan(workload.plan, instance)
    faults = plan.faults()
    if faults:
        more = f" (and {len(faults) - FAULTS_SHOWN:,} more faults)" if len(faults) > FAULTS_SHOWN else ""
        raise refusal(scenario.name, "workload.plan", f"{workload.plan}: {'; '.join(faults[:FAULTS_SHOWN])}{more}")
    node_of_plan_node = _places(scenario, plan)
    # the oracle reads demand beyond the end of the run
    hours = 24.0 * scenario.run.days + workload.oracle_hours
    step = scenario.cluster.metering_minutes * 60
    return PlanPool(
        tenants_of_plan(plan, plan_hours=workload.plan_hours, hours=hours, step_seconds=step), node_of_plan_node
    )


def used_kinds(plan: ProvisioningPlan) -> list[tuple[int, NodeSpec]]:
    """Return how many nodes of each kind a plan uses, and their capacity in user units; unused kinds are omitted."""
    used = np.bincount(plan.kind, minlength=len(plan.instance.nodes)).tolist()
    return [(count, node) for count, node in zip(used, user_nodes(plan.instance), strict=True) if count]


def _places(scenario: Scenario, plan: ProvisioningPlan) -> Int:
    """Return the node of the cluster for each node of a plan, (N,): the first nodes of the matching kind.

    The kinds of the cluster match the used node types in order; a kind may have more nodes than the plan uses.
    """
    kinds = [(first, nodes, capacity) for first, nodes, capacity in _kinds(scenario) if nodes]
    node_ranges = []
    for number, (needed, spec) in enumerate(used_kinds(plan)):
        node_type = f"node type {spec.name}"
        if number >= len(kinds) or kinds[number][1] < needed:
            count = kinds[number][1] if number < len(kinds) else 0
            message = f"{node_type}: the plan needs {needed:,} nodes, kind {number + 1} of the cluster has {count:,}"
            raise refusal(scenario.name, "cluster.groups" if number else "cluster.nodes", message)
        first, _, capacity = kinds[number]
        for resource, required in zip(plan.instance.resources, spec.capacity, strict=True):
            if capacity.get(resource, np.inf) < required:
                message = (
                    f"{node_type}: the plan requires {required:g} {resource}, the cluster has {capacity[resource]:g}"
                )
                raise refusal(scenario.name, "cluster.groups" if number else "cluster.capacities", message)
        node_ranges.append(first + np.arange(needed))
    return np.concatenate(node_ranges)


def _kinds(scenario: Scenario) -> Iterator[tuple[int, int, dict[str, float]]]:
    """Yield the index of the first node, the number of nodes and the capacity of each kind of the cluster's nodes."""
    first = 0
    for nodes, capacity in scenario.cluster.kinds:
        yield first, nodes, dict(capacity)
        first += nodes
