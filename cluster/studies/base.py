"""Whose tenants a study is about: the synthetic regions, or those of a scenario file."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from cluster.scenario_file import read_scenario
from cluster.studies.arms import NOTHING, Arm
from cluster.studies.design import Design, Setting
from plb import UnknownNameError
from workloads.regions import REGIONS

HISTORY_TENANTS, QUICK_HISTORY_TENANTS = 92_000, 20_000
"""Past tenants of a region; 92,000 of region1 have 115,000 traces, as many as [1] section 8.1 takes."""


@attrs.frozen
class Base:
    """What all runs of a study have in common.

    Parameters
    ----------
    workloads
        Names of the regions, or of the one scenario.
    density
        A usual density there.
    is_of_regions
        Whether the cluster is that of [1] and the tenants are those of the synthetic regions.
    cluster, workload, run, engine
        Fields of these sections.
    files
        Names and sizes of the files that the traces are read from.
    """

    workloads: tuple[str, ...]
    density: float
    is_of_regions: bool
    cluster: Mapping[str, Any] = NOTHING
    workload: Mapping[str, Any] = NOTHING
    run: Mapping[str, Any] = NOTHING
    engine: Mapping[str, Any] = NOTHING
    files: Mapping[str, int] = NOTHING

    def design(
        self,
        settings: Sequence[Setting],
        arms: Sequence[Arm],
        *,
        days: float,
        repeats: int,
        seed: int,
        engine: Mapping[str, Any],
    ) -> Design:
        """Return a study of these arms."""
        return Design(
            settings=tuple(settings),
            arms=tuple(arms),
            repeats=repeats,
            days=days,
            seed=seed,
            workload=self.workload,
            cluster=self.cluster,
            run=self.run,
            engine={**engine},
            files=self.files,
        )


def base_of(region: Sequence[str] | None, scenario: Path | None, traces: Path | None, *, quick: bool) -> Base:
    """Return what a user names: a scenario file, or regions; `quick`: with fewer past tenants."""
    if scenario is not None:
        return of_scenario(scenario, traces)
    return regions(region or (), QUICK_HISTORY_TENANTS if quick else HISTORY_TENANTS)


def regions(names: Sequence[str] = (), history_tenants: int = HISTORY_TENANTS) -> Base:
    """Return synthetic regions by name; none: all."""
    for name in names:
        if name not in REGIONS:
            raise UnknownNameError("region", name, REGIONS)
    workload = {"kind": "region", "history_tenants": history_tenants}
    return Base(tuple(names) or tuple(REGIONS), 2.0, is_of_regions=True, workload=workload)


def of_scenario(path: Path, traces: Path | None = None) -> Base:
    """Return the cluster and the tenants of a scenario file; its policies, days, seed and repeats do not count.

    Parameters
    ----------
    traces
        Directory of the traces, instead of that in the file.
    """
    scenario = read_scenario(path)
    tables = tomllib.loads(path.read_text(encoding="utf-8"))
    workload = {name: value for name, value in tables.get("workload", {}).items() if name not in ("density", "region")}
    if traces is not None or scenario.workload.path is not None:
        workload["path"] = str(traces.resolve() if traces is not None else Path(scenario.workload.path or "").resolve())
    run = {name: value for name, value in tables.get("run", {}).items() if name == "fill_hours"}
    name = scenario.workload.region if scenario.workload.kind == "region" else scenario.name
    sections = {key: tables.get(key, {}) for key in ("cluster", "engine")}
    density = scenario.workload.density
    files = _files_in(Path(workload["path"])) if "path" in workload else {}
    return Base((name,), density, is_of_regions=False, workload=workload, run=run, files=files, **sections)


def _files_in(folder: Path) -> dict[str, int]:
    return {str(path.relative_to(folder)): path.stat().st_size for path in sorted(folder.rglob("*")) if path.is_file()}
