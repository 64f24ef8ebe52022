"""The published result of a study: a file in docs/data, from which ``make pages`` makes the tables of the pages."""

from __future__ import annotations

import platform
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from cluster.results.writing import json_object, write_json
from cluster.studies.runner import STUDY, TIMINGS, stamped_as
from plb.errors import ConflictError

DATA = Path("docs") / "data"
"""Directory of the published results in a checkout."""
WITHOUT_EFFECT = ("--out", "--json", "--jobs", "--scheduler", "--format")
"""Options with a value on which no figure depends."""
FLAGS_WITHOUT_EFFECT = ("--quiet", "--restart")
"""Options without a value on which no figure depends."""
UNPUBLISHED = ("by_bin", "recalibration", "published_deviation_percent", "published_seconds")
"""Keys that are only in the file of ``--json``: figures of `plb study calibration` that no table needs, and the means
of the authors that `plb study provisioning` reads, which are not ours to publish.
"""


def path_of(study: str, workload: str | None) -> Path:
    """Return the file of a study, for a workload or its default one; without a checkout raise `ConflictError`."""
    if not DATA.is_dir():
        raise ConflictError(f"study: --publish writes to {DATA} of a checkout, and there is none in {Path.cwd()}")
    return DATA / (f"{study}.json" if workload is None else f"{study}-{workload}.json")


def publish(figures: Mapping[str, Any], folder: Path, path: Path) -> None:
    """Write the figures of a study in `folder` with what is needed to repeat them.

    This is the command, the repeats, the number of runs with their processor time, pilots included, and the processor.
    """
    seconds = [second for file in folder.rglob(TIMINGS) for second in cpu_seconds(file)]
    run = {
        "command": command_of(sys.argv[1:]),
        "repeats": (json_object(folder / STUDY) or {}).get("repeats"),
        "runs": len(seconds),
        "cpu_seconds": round(sum(seconds), 1),
        "processor": processor(),
    }
    write_json(path, {**stamped_as(_published(figures), folder), "run": run})


def _published(figures: Any) -> Any:
    """Return figures, plain JSON values, without the keys in `UNPUBLISHED`."""
    if isinstance(figures, Mapping):
        return {name: _published(value) for name, value in figures.items() if name not in UNPUBLISHED}
    return [_published(value) for value in figures] if isinstance(figures, list | tuple) else figures


def command_of(arguments: Sequence[str]) -> str:
    """Return the command of a study with the options on which its figures depend."""
    kept = [
        argument
        for before, argument in pairwise(["", *arguments])
        if before not in WITHOUT_EFFECT and argument.partition("=")[0] not in (*WITHOUT_EFFECT, *FLAGS_WITHOUT_EFFECT)
    ]
    return shlex.join(["plb", *kept])


def cpu_seconds(timings: Path) -> list[float]:
    """Return the processor time of each run in a file of timings."""
    import polars as pl

    frame = pl.read_parquet(timings)
    return frame["cpu_seconds"].to_list() if "cpu_seconds" in frame.columns else []


def processor() -> str:
    """Return the name of the processor."""
    cpuinfo = Path("/proc/cpuinfo")
    names = re.findall(r"model name\s*: (.+)", cpuinfo.read_text()) if cpuinfo.exists() else []
    return str(names[0]) if names else platform.processor()
