"""Options that commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

from typer import Option

Regions: TypeAlias = Annotated[list[str] | None, Option(help="Synthetic region. Can be repeated. Default: all four.")]
Seed: TypeAlias = Annotated[int, Option(min=0, help="Seed of all random numbers.")]
Jobs: TypeAlias = Annotated[
    int | None, Option(min=1, help="Processes. The results do not depend on it. Default: one for each core.")
]
Scheduler: TypeAlias = Annotated[
    str | None, Option(help="Address of a Dask scheduler whose workers execute the runs: tcp://HOST:PORT.")
]
Restart: TypeAlias = Annotated[bool, Option("--restart", help="Repeat the finished runs in the directory.")]
Json: TypeAlias = Annotated[Path | None, Option(help="Write the figures to this file.")]
StudyFolder: TypeAlias = Annotated[Path | None, Option(help="Directory of the results. Default: results/study-NAME.")]
Quiet: TypeAlias = Annotated[bool, Option("--quiet", help="Print errors only.")]
