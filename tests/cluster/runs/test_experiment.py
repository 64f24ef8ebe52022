"""All runs of a scenario: the progress of several processes."""

from __future__ import annotations

import time

import numpy as np
import pytest

from cluster.runs.experiment import STOP, _relay, _shared_times


def test_an_error_of_progress_ends_the_runs_and_is_raised():
    """The runs learn it from the shared times."""

    def refuse(policy: str, repeat: int, seconds: float) -> None:
        raise ValueError(f"{policy} {repeat} {seconds}")

    def run(times: np.ndarray) -> None:
        with _relay(times, [("a", 0), ("b", 0)], refuse):
            times[1] = 600.0
            until = time.monotonic() + 60
            while times[STOP] < 0.0 and time.monotonic() < until:
                time.sleep(0.01)

    with _shared_times(2) as times:
        with pytest.raises(ValueError, match="b 0 600"):
            run(times)
        assert times[STOP] > 0.0
