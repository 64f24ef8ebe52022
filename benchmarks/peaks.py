"""Speed of the peak predictors: a week of machines with 30 tasks each at five minutes, with the defaults.

The first table has CPU time of the process on one thread by predictor, without generation of the samples. The second
has CPU time per step of streaming. 1,000 machines are 60 million samples and 4 GB; the default is a tenth of them.

    python benchmarks/peaks.py
    python benchmarks/peaks.py 1000
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

import numpy as np

from plb.risk.peaks import MachinePeak, TaskSamples, parse, predict

TASKS, STEPS = 30, 2016
WHOLE = 1000
STREAMED = 300
"""Number of measured streaming steps."""
SPECS = (
    "borg-default",
    "rc-like",
    "n-sigma",
    "n-sigma:form=paper",
    "per-machine-percentile",
    "historical-simulation",
    "max(n-sigma;rc-like)",
    "oracle",
    "oracle:horizon=864",
)


def samples_of(machines: int) -> TaskSamples:
    """Return a week of samples. A task lasts a day, so tasks arrive and depart all the time."""
    rng = np.random.default_rng(7)
    machine, slot, step = (one.ravel() for one in np.indices((machines, TASKS, STEPS)))
    task = slot * 1000 + (step + 61 * slot) // 288
    limit = np.repeat(rng.lognormal(-3.0, 0.5, machines * TASKS), STEPS)
    usage = limit * rng.beta(2.0, 4.0, len(limit))
    return TaskSamples.from_columns(machine=machine, task=task, time=300 * step, usage=usage, limit=limit)


def bulk(samples: TaskSamples) -> Iterator[tuple[str, float]]:
    """Yield CPU seconds by predictor."""
    few = samples_of(1)
    for text in SPECS:
        predict(few, [parse(text)], threads=1)  # compiles
        begun = time.process_time()
        predict(samples, [parse(text)], threads=1)
        yield text, time.process_time() - begun


def streaming(text: str) -> float:
    """Return CPU seconds per streaming step of 30 tasks with complete history."""
    rng = np.random.default_rng(7)
    stream, tasks, limit = MachinePeak(parse(text)), [f"task{number}" for number in range(TASKS)], [1.0] * TASKS  # type: ignore[arg-type]
    usage = rng.random((STREAMED + STEPS, TASKS)).tolist()
    for values in usage[:STEPS]:
        stream.update(tasks, values, limit)
    begun = time.process_time()
    for values in usage[STEPS:]:
        stream.update(tasks, values, limit)
    return (time.process_time() - begun) / STREAMED


def main(machines: int) -> None:
    """Print the tables."""
    samples = samples_of(machines)
    print(f"{len(samples):,} samples of {machines} machines, one thread")
    print(f"{'predictor':28} {'seconds':>8} {'M samples/s':>12} {'s for 60 M':>11}")
    for text, seconds in bulk(samples):
        whole = seconds * WHOLE / machines
        print(f"{text:28} {seconds:8.1f} {len(samples) / seconds / 1e6:12.1f} {whole:11.0f}")
    print(f"{'streaming':28} {'µs a step':>9} {'samples/s':>11}")
    for text in (one for one in SPECS if not one.startswith("oracle")):
        seconds = streaming(text)
        print(f"{text:28} {seconds * 1e6:9.0f} {TASKS / seconds:11,.0f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else WHOLE // 10)
