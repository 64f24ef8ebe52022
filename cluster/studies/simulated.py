"""One run of a study: a scenario under one arm, in whatever process it is asked for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import attrs

from cluster.scenario.scenario import Scenario
from cluster.scenario.scenario_file import scenario_from
from cluster.scenario.workload_section import OF_REPORTS
from cluster.simulation.pools import Source, read_source
from cluster.simulation.tenants import TenantSequence, make_tenants

if TYPE_CHECKING:
    from cluster.simulation.record import RunResult

NOT_OF_TENANTS = ("density", "density_end", "growth", "pair_share")
"""Fields of ``[workload]`` that change who arrives, but not where tenants and history come from."""


def run_simulation(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Simulate what a task of `cluster.studies.design.Design` describes; return the totals, and the timings apart."""
    from cluster.simulation.simulation import simulate

    scenario, source, tenants, repeat = prepared(arguments)
    result = whole(simulate(scenario, source, tenants, scenario.run.policies[0], repeat))
    return {"totals": result.totals, "timings": result.timings}


def whole(result: RunResult) -> RunResult:
    """Return the result of a run; one that was cut short would count as one of fewer violations, so it is none."""
    if not result.complete:
        raise KeyboardInterrupt
    return result


def prepared(arguments: Mapping[str, Any]) -> tuple[Scenario, Source, TenantSequence, int]:
    """Return the scenario of a task, where its tenants come from, the tenants themselves, and the number of the repeat.

    What several runs have in common is kept for the next one: the demand history, and the tenants.
    """
    tables, repeat = arguments["scenario"], int(arguments["repeat"])
    scenario = scenario_from(tables)
    # one search at a time, as there is a process a core
    scenario = attrs.evolve(scenario, engine={"threads": 1, **scenario.engine})
    return scenario, _source(_origin(tables)), _tenants(_common(tables), repeat), repeat


def _common(tables: Mapping[str, Any]) -> str:
    """Return what the tenants depend on."""
    run, workload = _without(tables["run"], ("policies",)), _without(tables["workload"], OF_REPORTS)
    return json.dumps({**tables, "run": run, "workload": workload, "engine": {}, "policies": {}}, sort_keys=True)


def _origin(tables: Mapping[str, Any]) -> str:
    """Return what a source of tenants depends on."""
    workload = _without(tables["workload"], (*OF_REPORTS, *NOT_OF_TENANTS))
    return json.dumps({"name": tables["name"], "workload": workload, "cluster": tables["cluster"]}, sort_keys=True)


def _without(table: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: value for name, value in table.items() if name not in names}


@lru_cache(maxsize=4)
def _source(origin: str) -> Source:
    return read_source(_scenario(json.loads(origin)))


@lru_cache(maxsize=1)  # runs with the same tenants follow one another, and traces are large
def _tenants(common: str, repeat: int) -> TenantSequence:
    tables = json.loads(common)
    return make_tenants(_scenario(tables), _source(_origin(tables)), repeat)


def _scenario(tables: Mapping[str, Any]) -> Scenario:
    """Return a scenario whose policy does not matter."""
    return scenario_from({**tables, "run": {**tables.get("run", {}), "policies": ["original"]}})
