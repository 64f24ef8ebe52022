"""Reads what the tenants of real traces are made of: the traces, those of the history, and the recorded time."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from cluster.errors import refusal
from cluster.scenario.workload_section import Workload
from cluster.simulation.recorded_arrivals import recorded_span
from cluster.simulation.trace_split import check_other_traces, seed_of_repeat, split_traces
from plb.risk import DemandHistory
from workloads.trace import HOUR_SECONDS, TraceSet


@attrs.frozen(eq=False)
class TraceInputs:
    """What was read for a workload of real traces.

    Parameters
    ----------
    traces
        All tenants; without starts if arrivals are generated.
    others
        The tenants of a history from other traces, or None.
    begin, end
        Begin of the run, and end of the recorded time, in seconds since the origin of the traces; 0 without starts.
    history
        The history that all repeats have; None: it follows from the split of each.
    origin
        What was read, as plain values for the results.
    """

    traces: TraceSet
    others: TraceSet | None
    begin: float = 0.0
    end: float = 0.0
    history: DemandHistory | None = None
    origin: Mapping[str, Any] = attrs.field(factory=dict)


def read_inputs(workload: Workload) -> TraceInputs:
    """Read the traces of a workload of kind ``"traces"`` or ``"bitbrains"``.

    Raises
    ------
    ScenarioError
        A directory is missing, the traces do not say when tenants began, or the history has other metrics.
    ConflictError
        The history has a tenant of the traces.
    """
    traces, begin, end = read_traces_of(workload), 0.0, 0.0
    if workload.arrivals == "recorded":
        first, end = recorded_span(traces)
        begin = first + workload.from_hours * HOUR_SECONDS
    else:
        traces = attrs.evolve(traces, start=None)
    others = None
    if workload.history_path is not None:
        others = read_traces_of(workload, workload.history_path, "history_path")
        check_other_traces(workload, traces, others)
    return TraceInputs(traces, others, begin, end)


def check_inputs(workload: Workload) -> None:
    """Raise an error if the traces of a workload cannot be read, or not be split as its first repeat needs it."""
    inputs = read_inputs(workload)
    split_traces(inputs.traces, workload, seed_of_repeat(workload, 0), inputs.begin)


def digest_of_traces(traces: TraceSet) -> str:
    """Return the SHA-256 of the contents of traces, in hexadecimal digits."""
    found = sha256()
    for name, value in attrs.asdict(traces, recurse=False).items():
        if value is None:
            continue  # so that traces without starts have the digest of versions that knew none
        plain = value.tolist() if isinstance(value, np.ndarray) and value.dtype.hasobject else value
        content = plain.tobytes() if isinstance(plain, np.ndarray) else repr(plain).encode()
        found.update(f"{name} {len(content)}\n".encode())
        found.update(content)
    return found.hexdigest()


def read_traces_of(workload: Workload, path: str | None = None, field: str = "path") -> TraceSet:
    """Read the real traces of a workload, or others in the same format.

    Parameters
    ----------
    path, field
        Directory of the others, and the field that names it.
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
