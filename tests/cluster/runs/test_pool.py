"""A function of many items in several processes: order, errors, and the end of the processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from cluster.runs.experiment import STOP, _relay, _shared_times
from cluster.runs.pool import map_in_processes
from plb.errors import InvalidValueError, PlbError
from tests.sources import ROOT

NEEDS_PROC = pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for processes in /proc")


def refuse(number: int) -> int:
    """Refuse every number."""
    raise InvalidValueError("item", "number", number, "none")


def end(_number: int) -> None:
    """End this process as the system does without memory."""
    os.kill(os.getpid(), signal.SIGKILL)


def process_id(seconds: float) -> int:
    """Return the id of this process after a delay."""
    time.sleep(seconds)
    return os.getpid()


@pytest.mark.parametrize("jobs", [1, 2])
def test_results_come_in_the_order_of_the_items_on_request(jobs: int):
    assert list(map_in_processes(abs, [-3, 2, -1], jobs=jobs, ordered=True)) == [3, 2, 1]


@pytest.mark.parametrize("jobs", [1, 2])
def test_nothing_is_done_without_items(jobs: int):
    assert list(map_in_processes(refuse, [], jobs=jobs)) == []


@pytest.mark.parametrize("jobs", [1, 2])
def test_errors_reach_the_caller(jobs: int):
    with pytest.raises(InvalidValueError, match="number = 1 is not allowed"):
        list(map_in_processes(refuse, [1, 1], jobs=jobs))


@pytest.mark.filterwarnings("ignore:resource_tracker")
def test_a_process_that_ends_is_an_error_and_the_next_map_works():
    with pytest.raises(PlbError, match="a process ended unexpectedly, perhaps without enough memory; try fewer --jobs"):
        list(map_in_processes(end, [1, 2], jobs=2))
    assert list(map_in_processes(abs, [-3, 2], jobs=2, ordered=True)) == [3, 2]


PARENT = """
import time
from cluster.runs.pool import map_in_processes
from tests.cluster.runs.test_pool import process_id

print(*map_in_processes(process_id, [0.2, 0.2], jobs=2), flush=True)
time.sleep(60)
"""


@NEEDS_PROC
def test_processes_end_if_the_first_one_is_killed():
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert parent.stdout is not None
    numbers = parent.stdout.readline().split()
    assert numbers
    parent.kill()
    parent.wait()
    parent.stdout.close()
    for _ in range(100):
        if not any(Path("/proc", number).exists() for number in numbers):
            return
        time.sleep(0.1)
    pytest.fail(f"still there: {numbers}")


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
