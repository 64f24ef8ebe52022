"""Options that commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

Regions: TypeAlias = Annotated[
    list[str] | None, typer.Option(help="Synthetic region. Can be repeated. Default: all four.")
]
Seed: TypeAlias = Annotated[int, typer.Option(min=0, help="Seed of all random numbers.")]
Jobs: TypeAlias = Annotated[
    int | None, typer.Option(min=1, help="Processes. The results do not depend on it. Default: one for each core.")
]
Scheduler: TypeAlias = Annotated[
    str | None, typer.Option(help="Address of a Dask scheduler whose workers execute the runs: tcp://HOST:PORT.")
]
Restart: TypeAlias = Annotated[bool, typer.Option("--restart", help="Repeat the finished runs in the directory.")]
Json: TypeAlias = Annotated[Path | None, typer.Option(help="Write the figures to this file.")]
StudyFolder: TypeAlias = Annotated[
    Path | None, typer.Option(help="Directory of the results. Default: results/study-NAME.", show_default=False)
]
Quiet: TypeAlias = Annotated[bool, typer.Option("--quiet", help="Print errors only.")]
