"""The split of a trace set: tenants of the past, which the engine learns from, and tenants to simulate; and samples."""

from __future__ import annotations

import attrs
import numpy as np

from plb.errors import ConflictError
from plb.validation import check_count, check_number
from workloads.trace import TraceSet

SAMPLE_STREAM = 1
"""Separates the random numbers of a sample from those of a split."""


def split_tenants(traces: TraceSet, history_share: float, seed: int) -> tuple[TraceSet, TraceSet]:
    """Split into two disjoint trace sets: the history, and the tenants to simulate.

    Whole families go to one side, and with a tenant all its replicas. The same seed gives the same split.

    Parameters
    ----------
    traces
        What to split.
    history_share
        Share of the families that go to the history, in [0, 1].
    seed
        Seed of the split; keep it with the results.

    Returns
    -------
    tuple
        History and simulation, each with its tenants in their former order.
    """
    check_number("split", "history_share", history_share, high=1.0)
    families = np.unique(traces.family)
    order = np.random.default_rng(check_count("split", "seed", seed)).permutation(len(families))
    past = families[order[: round(history_share * len(families))]]
    in_history = np.isin(traces.family, past)
    return traces.select(in_history), traces.select(~in_history)


def sample_families(traces: TraceSet, share: float, seed: int, *, replace: bool) -> TraceSet:
    """Return the tenants of a random sample of the families, at least one.

    The same seed gives the same sample. It is independent of a split with this seed.

    Parameters
    ----------
    traces
        What to sample from.
    share
        Size of the sample, as a share of the families; above 1 only with replacement.
    seed
        Seed of the sample.
    replace
        True: with replacement, as in a bootstrap. A family that is drawn k times has k copies, which have the same
        demand at the same times. The second copy of tenant ``a`` is ``a#2``, and so on.

    Raises
    ------
    ConflictError
        A tenant has the name of a copy of another.
    """
    check_number("sample", "share", share, low_open=True, high=float("inf") if replace else 1.0)
    families, family = np.unique(traces.family, return_inverse=True)
    count = max(1, round(share * len(families)))
    rng = np.random.default_rng([check_count("sample", "seed", seed), SAMPLE_STREAM])
    drawn = np.bincount(rng.choice(len(families), count, replace=replace), minlength=len(families))
    copies = drawn[family]
    source = np.repeat(np.arange(traces.tenants), copies)
    number = np.arange(len(source)) - np.repeat(np.cumsum(copies) - copies, copies)
    if not number.any():
        return traces.select(source)
    names = traces.tenant_names()[source].astype(np.object_)
    names[number > 0] = [f"{name}#{1 + copy}" for name, copy in zip(names[number > 0], number[number > 0], strict=True)]
    doubled = set(names[number > 0]) & set(names[number == 0])
    if doubled:
        raise ConflictError(f"sample: tenant {min(doubled)} has the name of a copy of another tenant")
    return attrs.evolve(traces.select(source), tenant=np.array(names.tolist()))
