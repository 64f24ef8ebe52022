"""The tenants of real traces: which form the history, and which are simulated."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from cluster.errors import refusal
from cluster.scenario.workload_section import Workload
from plb import ConflictError
from workloads.trace import TraceSet
from workloads.train_test_split import sample_families, split_tenants


def seed_of_repeat(workload: Workload, repeat: int) -> int:
    """Return the seed of the split of a repeat: the same for all, unless each repeat has its own."""
    return workload.trace_seed + (repeat if workload.each_repeat != "same" else 0)


def split_traces(traces: TraceSet, workload: Workload, seed: int, begin: float) -> tuple[TraceSet, TraceSet]:
    """Return the tenants of the history, perhaps none, and those to simulate. No tenant is on both sides.

    Parameters
    ----------
    traces
        All tenants.
    workload
        Rules of the split.
    seed
        Seed of the repeat.
    begin
        Begin of the run, seconds since the origin of the traces.

    Raises
    ------
    ScenarioError
        A side that is needed has no tenant.
    """
    if workload.history == "before":
        assert traces.start is not None
        ended = traces.start + traces.lifetime_seconds <= begin
        past, rest = traces.select(ended), traces.select(~ended)
        if not past.tenants:
            message = (
                f"no tenant ended before hour {workload.from_hours:g}, so there is no history; use a later "
                "workload.from_hours or another history"
            )
            raise refusal("scenario", "workload.history", message)
        if not rest.tenants:
            message = f"all {traces.tenants:,} tenants ended before hour {workload.from_hours:g}"
            raise refusal("scenario", "workload.from_hours", message)
    else:
        share = 0.0 if workload.history_path is not None else workload.history_share
        past, rest = split_tenants(traces, share, seed)
        if not rest.tenants or (share > 0.0 and not past.tenants):
            message = f"{traces.tenants} tenants cannot be split into history and simulation; use more traces"
            raise refusal("scenario", "workload.history_share", message)
    resampled = workload.each_repeat == "resample"
    if resampled or workload.simulated_share < 1.0:
        rest = sample_families(rest, workload.simulated_share, seed, replace=resampled)
    return past, rest


def rule_of(workload: Workload) -> str:
    """Return how past and simulated tenants are separated, in words."""
    if workload.history == "before":
        rule = "the tenants that ended before the begin of the run are the history"
    elif workload.history_path is not None:
        rule = "the history is from other traces"
    elif workload.history_share == 0.0:
        rule = "there is no history"
    else:
        rule = "families of tenants sampled at random into history and simulation (workloads.train_test_split)"
    each = {"split": "; anew in each repeat", "resample": "; simulated families resampled in each repeat"}
    return rule + each.get(workload.each_repeat, "")


def check_other_traces(workload: Workload, traces: TraceSet, past: TraceSet) -> None:
    """Raise an error if a history from other traces has other metrics, or tenants of the simulated traces.

    Raises
    ------
    ScenarioError
        The history has other metrics.
    ConflictError
        A tenant is in both: it has the same name and the same demand.
    """
    place = "workload.history_path"
    if past.metrics != traces.metrics:
        found, needed = (", ".join(f"{one.name} in {one.unit}" for one in each.metrics) for each in (past, traces))
        if found == needed:
            found, needed = ("trends of " + ", ".join(m.name for m in e.metrics if m.trend) for e in (past, traces))
        raise refusal(
            "scenario", place, f"{workload.history_path} has {found}; expected the metrics of the traces: {needed}"
        )
    names, others = traces.tenant_names(), past.tenant_names()
    common, here, there = np.intersect1d(names, others, return_indices=True)
    for name, one, other in zip(common.tolist(), here.tolist(), there.tolist(), strict=True):
        if np.array_equal(_demand_of(traces, one), _demand_of(past, other)):
            raise ConflictError(f"{place}: tenant {name} of {Path(workload.history_path or '')} is simulated, too")


def _demand_of(traces: TraceSet, tenant: int) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    """Return the demand of a tenant, all series one after the other."""
    series = traces.series_index[tenant]
    spans = [slice(*traces.series_start[one : one + 2]) for one in series[series >= 0].tolist()]
    return np.concatenate([traces.values[span] for span in spans])
