"""What the command line says instead of a scenario."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from cluster.scenario.scenario import Scenario
from plb import ConflictError
from workloads.format import holds_traces

OVERRIDDEN: Mapping[str, tuple[str, ...]] = {
    "run": ("policies", "seed", "repeats", "days"),
    "workload": ("density", "kind", "path"),
}
"""By section, the fields that the command line can say."""


def override(scenario: Scenario, **given: Any) -> Scenario:
    """Return a scenario with the values from the command line in place of its own; None leaves a value as it is.

    Raises
    ------
    ConflictError
        Traces are given for the tenants of a plan.
    """
    traces = given.pop("traces")
    if traces is not None and scenario.workload.kind == "plan":
        raise ConflictError(f"{scenario.name}: its tenants are those of a plan; --traces has no place there")
    values = {key: value for key, value in given.items() if value is not None}
    if "policy" in values:
        values["policies"] = tuple(dict.fromkeys(values.pop("policy")))
    workload = {"density": values.pop("density")} if "density" in values else {}
    if traces is not None:
        workload["path"] = str(traces)
        if scenario.workload.kind == "region" or holds_traces(traces):
            workload["kind"] = "traces"
    run = attrs.evolve(scenario.run, **values)
    return attrs.evolve(scenario, run=run, workload=attrs.evolve(scenario.workload, **workload))
