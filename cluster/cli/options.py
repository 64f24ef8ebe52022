"""Options that commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

from typer import Argument, Option

from cluster.plots.formats import PlotFormat

ScenarioFile: TypeAlias = Annotated[Path, Argument(help="The scenario, a TOML file.")]
RunSeed: TypeAlias = Annotated[int | None, Option(help="Seed. Default: as in the scenario.")]
RunDays: TypeAlias = Annotated[float | None, Option(help="Simulated days. Default: as in the scenario.")]
Traces: TypeAlias = Annotated[Path | None, Option(help="Directory of the traces. Default: as in the scenario.")]
PlanFile: TypeAlias = Annotated[
    Path | None,
    Option(help="Write the plan to this CSV file (- is standard output): node, node_type, application, replicas."),
]
Regions: TypeAlias = Annotated[list[str] | None, Option(help="Synthetic region. Can be repeated. Default: all four.")]
Seed: TypeAlias = Annotated[int, Option(min=0, help="Seed of all random numbers.")]
Jobs: TypeAlias = Annotated[
    int | None, Option(min=1, help="Processes. The results do not depend on it. Default: one for each core.")
]
Scheduler: TypeAlias = Annotated[
    str | None, Option(help="Address of a Dask scheduler whose workers execute the runs: tcp://HOST:PORT.")
]
Restart: TypeAlias = Annotated[bool, Option("--restart", help="Repeat the finished runs in the directory.")]
Json: TypeAlias = Annotated[Path | None, Option(help="Write the figures to this file; - is standard output.")]
Publish: TypeAlias = Annotated[
    bool, Option("--publish", help="Write the figures to docs/data of the checkout; `make pages` makes tables of them.")
]
StudyFolder: TypeAlias = Annotated[Path | None, Option(help="Directory of the results. Default: results/study-NAME.")]
PlotsFormat: TypeAlias = Annotated[
    PlotFormat,
    Option("--format", help="Format of the plots. PDF and SVG have the width of a column or page of a paper."),
]
Quiet: TypeAlias = Annotated[bool, Option("--quiet", help="Print errors only.")]
