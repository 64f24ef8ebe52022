"""The undo log: a chain returns to its best solution and to its start, also when the log is full again and again."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given

from plb.array_types import NOWHERE
from plb.search.annealing import annealing
from plb.search.annealing.chain import UndoLog, forget_start, is_full, note_accepted
from plb.search.annealing.cooling_schedule import new_schedule
from plb.state.arrays import Proposal
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
    """Return a log with room for a number of entries."""
    return UndoLog(np.empty(entries, np.int64), np.empty(entries, np.int64), np.empty(entries, np.int64))


@pytest.mark.kernels
def test_entries_since_the_best_stay_when_the_start_is_forgotten():
    """The log has room again for as many entries as led to the best solution."""
    schedule, log = new_schedule(), long_log(4)
    for row in range(3):
        note_accepted(schedule, log, Proposal(row, 0, NOWHERE, row + 10))
    schedule.best_length = 2
    assert is_full(schedule, log, 1)
    forget_start(schedule, log)
    assert (schedule.undo_length, schedule.best_length) == (1, 0)
    assert (log.row[0], log.source[0], log.partner[0]) == (2, 12, -1)
    assert not is_full(schedule, log, 1)
