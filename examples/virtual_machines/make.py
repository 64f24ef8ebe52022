"""Write machines.csv: demand of 40 invented virtual machines on one day, as a monitoring system may export it.

    python examples/virtual_machines/make.py

Each machine has a row every half hour: the cores and the memory that it uses. A few measurements are missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

import numpy as np

FILE = Path(__file__).with_name("machines.csv")
MIDNIGHT = datetime(2025, 3, 3, tzinfo=timezone(timedelta(hours=1)))
KINDS = {"web": (3.0, 14.0), "database": (2.0, 15.0), "batch": (2.0, 2.0)}
"""Cores at the busiest hour, and that hour, by kind of machine."""
HALF_HOURS = 48


def lines() -> Iterator[str]:
    """Yield the lines of the file."""
    rng = np.random.default_rng(7)
    yield "time,machine,kind,cores_used,memory_gb"
    for number in range(40):
        kind = list(KINDS)[number % len(KINDS)]
        most, busiest = KINDS[kind]
        hour = np.arange(HALF_HOURS) / 2
        shape = np.exp(-(((hour - busiest + 12) % 24 - 12) ** 2) / 20)
        cores = most * rng.uniform(0.5, 1.5) * (0.15 + 0.85 * shape) * rng.lognormal(0.0, 0.2, HALF_HOURS)
        memory = rng.uniform(2, 16) * np.minimum(0.4 + hour / 10, 1.0)
        measured = rng.random(HALF_HOURS) > 0.01
        for row in range(HALF_HOURS):
            time = (MIDNIGHT + timedelta(minutes=30 * row)).isoformat(timespec="minutes")
            used = f"{cores[row]:.2f}" if measured[row] else ""
            yield f"{time},vm-{number:02},{kind},{used},{memory[row]:.1f}"


if __name__ == "__main__":
    FILE.write_text("\n".join(lines()) + "\n")
