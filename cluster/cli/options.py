"""Options that commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

Regions: TypeAlias = Annotated[
    list[str] | None, typer.Option(help="Synthetic region; may be given again. Default: all four.")
]
Seed: TypeAlias = Annotated[int, typer.Option(min=0, help="Seed of the tenants and of all else.")]
Jobs: TypeAlias = Annotated[
    int | None, typer.Option(min=1, help="Processes; results are the same for any number. Default: one a core.")
]
Scheduler: TypeAlias = Annotated[
    str | None, typer.Option(help="Address of a Dask scheduler whose workers make the runs, tcp://HOST:PORT.")
]
Restart: TypeAlias = Annotated[bool, typer.Option("--restart", help="Make finished runs in the directory again.")]
Json: TypeAlias = Annotated[Path | None, typer.Option(help="Write the figures to this file.")]
Quiet: TypeAlias = Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")]
