"""Studies of simulated runs, and one run, in any process."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import attrs

from cluster.runs.sweep import Task
from cluster.scenario.scenario import Scenario
from cluster.scenario.scenario_file import scenario_from
from cluster.scenario.workload_section import OF_REPORTS
from cluster.simulation.tenant_arrivals import TenantSequence, make_tenants
from cluster.simulation.tenant_pools import Source, read_source
from cluster.studies.design import Design
from cluster.studies.study import Study

if TYPE_CHECKING:
    from cluster.simulation.recorder import RunResult

NOT_OF_TENANTS = ("density", "density_end", "growth", "pair_share")
"""Fields of ``[workload]`` that change the arrivals, but not the source of tenants and history."""


def run_simulation(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """Simulate a task of `cluster.studies.design.Design`; return totals and timings."""
    scenario, source, tenants, repeat = prepared(arguments)
    return totals_and_timings(scenario, source, tenants, scenario.run.policies[0], repeat)


def totals_and_timings(
    scenario: Scenario, source: Source, tenants: TenantSequence, policy: str, repeat: int
) -> dict[str, Any]:
    """Simulate one run; return totals and timings."""
    from cluster.simulation.simulation import Simulation

    result = require_complete(Simulation(scenario, source, tenants, policy, repeat).run())
    return {"totals": result.totals, "timings": result.timings}


def on_one_thread(scenario: Scenario) -> Scenario:
    """Return a scenario whose engine has one thread by default, because there is a process for each core."""
    return attrs.evolve(scenario, engine={"threads": 1, **scenario.engine})


@attrs.frozen(eq=False)
class SimulatedStudy(Study):
    """A study whose tasks are the simulated runs of a design.

    Parameters
    ----------
    design
        Settings, arms and repeats.
    """

    run = staticmethod(run_simulation)

    design: Design

    def described(self) -> Mapping[str, Any]:
        """Return the design as plain JSON values."""
        return self.design.described()

    def tasks(self) -> Sequence[Task]:
        """Return the runs of every arm in every setting and repeat."""
        return self.design.tasks()


def require_complete(result: RunResult) -> RunResult:
    """Return the result of a complete run. An interrupted run would count too few violations, so it has no result."""
    if not result.complete:
        raise KeyboardInterrupt
    return result


def prepared(arguments: Mapping[str, Any]) -> tuple[Scenario, Source, TenantSequence, int]:
    """Return the scenario of a task, the source of its tenants, the tenants, and the number of the repeat.

    Demand history and tenants are kept for the next run, which often has the same.
    """
    tables, repeat = arguments["scenario"], int(arguments["repeat"])
    return (
        on_one_thread(scenario_from(tables)),
        _source(_origin(tables)).of_repeat(repeat),
        _tenants(_common(tables), repeat),
        repeat,
    )


def _common(tables: Mapping[str, Any]) -> str:
    """Return a key of everything on which the tenants depend."""
    run, workload = _without(tables["run"], ("policies",)), _without(tables["workload"], OF_REPORTS)
    return json.dumps({**tables, "run": run, "workload": workload, "engine": {}, "policies": {}}, sort_keys=True)


def _origin(tables: Mapping[str, Any]) -> str:
    """Return a key of everything on which a source of tenants depends."""
    workload = _without(tables["workload"], (*OF_REPORTS, *NOT_OF_TENANTS))
    return json.dumps({"name": tables["name"], "workload": workload, "cluster": tables["cluster"]}, sort_keys=True)


def _without(table: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: value for name, value in table.items() if name not in names}


@lru_cache(maxsize=4)
def _source(origin: str) -> Source:
    return read_source(_scenario(json.loads(origin)))


@lru_cache(maxsize=1)  # runs with the same tenants are consecutive, and traces are large
def _tenants(common: str, repeat: int) -> TenantSequence:
    tables = json.loads(common)
    return make_tenants(_scenario(tables), _source(_origin(tables)).of_repeat(repeat), repeat)


def _scenario(tables: Mapping[str, Any]) -> Scenario:
    """Return a scenario with any policy."""
    return scenario_from({**tables, "run": {**tables.get("run", {}), "policies": ["original"]}})
