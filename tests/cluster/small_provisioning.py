"""Small instances of provisioning, in the input formats of the commands."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from plb.provisioning import Affinity, Instance
from tests.workloads.provisioning.instance_files import write_authors, write_contest
from workloads.provisioning import NodeSpec, build_instance

APPLICATIONS = 30


def base(*, points: int = 1, count: int | None = None) -> Instance:
    """Return an instance with a few limits, nodes of 64 cores and 128 GB."""
    rng = np.random.default_rng(3)
    level = np.stack([rng.choice([1, 2, 4, 8, 16], APPLICATIONS), rng.choice([2, 4, 8, 16, 32], APPLICATIONS)], axis=1)
    shape = rng.uniform(0.5, 1.0, (APPLICATIONS, 1, points)) if points > 1 else np.ones((APPLICATIONS, 1, 1))
    return build_instance(
        name="small",
        resources=("cpu", "memory"),
        applications=[f"app_{number}" for number in range(APPLICATIONS)],
        replicas=rng.integers(1, 12, APPLICATIONS).astype(np.int32),
        demand=(level[:, :, None] * shape).round(2),
        affinity=Affinity.from_columns([0, 1, 2], [1, 2, 0], [0, 1, 0], APPLICATIONS),
        nodes=[NodeSpec("64x128", (64.0, 128.0), count)],
    )


def write_base(path: Path) -> Path:
    """Write constant demand in the format of the authors, and return the path."""
    write_authors(path, base())
    return path


def write_curves(directory: Path) -> Path:
    """Write demand at 98 time points in the format of the contest, on 200 machines, and return the directory."""
    write_contest(directory, base(points=98, count=200))
    return directory
