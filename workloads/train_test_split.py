"""The split of the tenants of a trace set: those of the past, which the engine learns from, and those to simulate."""

from __future__ import annotations

import numpy as np

from plb.validation import check_count, check_number
from workloads.trace import TraceSet


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
