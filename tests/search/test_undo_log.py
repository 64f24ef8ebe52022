"""The undo log: a chain returns to its best solution and to its start, also when the log is full again and again."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
from hypothesis import given

from plb.search.annealing import annealing
from plb.search.annealing.chain import UndoLog
from plb.testing import all_clusters
from tests.engine.strategies import examples


@examples(60)
@given(all_clusters())
def test_chains_in_place_find_what_chains_on_copies_find(cluster):
    """With a log of no size no chain runs in place, and each has a copy of the start."""
    plans = []
    entries = annealing.UNDO_LOG_SIZE

    def new_log(_proposals, capacity):
        return long_log(entries + capacity)

    for size in (entries, 0):
        with patch.object(annealing, "UNDO_LOG_SIZE", size), patch.object(annealing, "new_undo_log", new_log):
            plans.append(cluster.engine(w_failovers=0.1).balance(budget=240))
    assert plans[0] == plans[1]


def long_log(entries: int) -> UndoLog:
    return UndoLog(np.empty(entries, np.int64), np.empty(entries, np.int64), np.empty(entries, np.int64))
