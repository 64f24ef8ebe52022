"""A run of a search: a policy with the tenants of a repeat, at one number of nodes or one density."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import attrs

from cluster.capacity.question import Question, Searched
from cluster.errors import DensityError
from cluster.runs.sweep import Task
from cluster.scenario.digests import code_of_tenants_in
from cluster.scenario.scenario import Scenario
from cluster.scenario.scenario_file import override, read_scenario
from cluster.simulation.growth import check_classes
from cluster.simulation.tenant_arrivals import TenantSequence, make_tenants
from cluster.simulation.tenant_pools import Source, read_source
from cluster.studies.base import digests_of_inputs
from cluster.studies.design import digest
from cluster.studies.simulated import on_one_thread, totals_and_timings
from plb import PlbError


@attrs.frozen(eq=False)
class Subject:
    """The scenario of the question, from its file and the command line.

    Parameters
    ----------
    file
        The scenario file.
    given
        Changes of the command line: keywords of `cluster.scenario.scenario_file.override`, as plain JSON values.
    scenario
        The resulting scenario.
    inputs
        Digests of the files with its tenants, or of the region and of the code that makes its tenants.
    """

    file: str
    given: Mapping[str, Any]
    scenario: Scenario
    inputs: Mapping[str, str]

    @classmethod
    def read(cls, file: Path, given: Mapping[str, Any]) -> Subject:
        """Read a scenario; None keeps the value of the file. Raises `ScenarioError` if a policy lacks a history."""
        traces = given.get("traces")
        scenario = override(read_scenario(file), **{**given, "traces": None if traces is None else Path(traces)})
        scenario.check_history()
        inputs = digests_of_inputs(scenario) | code_of_tenants_in(scenario.workload.kind)
        return cls(str(file), given, scenario, inputs)

    @property
    def source(self) -> Source:
        """Source of its tenants, which is read once."""
        return _read(_text(self._as_json()))[1]

    def _as_json(self) -> dict[str, Any]:
        return {
            "file": self.file,
            "given": dict(self.given),
            "scenario_sha256": self.scenario.digest(),
            "inputs": dict(self.inputs),
        }

    def task(self, question: Question, value: float, policy: str, repeat: int) -> Task:
        """Return a run. Its key depends on everything that the run depends on, which excludes limits and range."""
        there = question.scenario(self.scenario, value)
        run = attrs.evolve(there.run, policies=(policy,), repeats=1)
        of_cluster = {"capacity": self.scenario.cluster.total_capacity(self.scenario.workload.density_metric)}
        known = digest(attrs.evolve(there, run=run).as_json(), of_cluster, self.inputs)
        arguments = {
            "subject": self._as_json(),
            "question": attrs.asdict(question),
            "value": value,
            "policy": policy,
            "repeat": repeat,
        }
        return Task(f"{value:g} {question.searched}, {policy}, repeat {repeat}, {known}", arguments)


def run_at(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Simulate a task.

    Returns
    -------
    dict
        ``totals`` and ``timings`` of the run; or ``impossible``, the reason: the cluster cannot hold the tenants, or
        the workload has too few.
    """
    subject, question = (_text(arguments[name]) for name in ("subject", "question"))
    scenario, source = _read(subject)
    value, repeat = float(arguments["value"]), int(arguments["repeat"])
    there = _question(question).scenario(scenario, value)
    try:
        tenants = _tenants(subject, question, value, repeat)
    except DensityError as error:
        return {"impossible": str(error)}
    return totals_and_timings(on_one_thread(there), source.of_repeat(repeat), tenants, arguments["policy"], repeat)


def tenants_at(question: Question, scenario: Scenario, source: Source, value: float, repeat: int = 0) -> TenantSequence:
    """Return the tenants of a repeat at a value: the same for all numbers of nodes, others for another density.

    Raises
    ------
    DensityError
        The cluster cannot hold them, or the workload has too few.
    """
    there, source = question.scenario(scenario, value), source.of_repeat(repeat)
    if question.searched is Searched.DENSITY:
        tenants = make_tenants(there, source, repeat)
    else:
        tenants = make_tenants(scenario, source, repeat, cluster_of_tenants=there.cluster)
    check_classes(scenario.workload.growth, tenants.traces)
    return tenants


def _text(table: Mapping[str, Any]) -> str:
    """Return a table as a text, which is the key of a cache."""
    return json.dumps(table, sort_keys=True)


def _question(text: str) -> Question:
    fields = json.loads(text)
    return Question(**{**fields, "searched": Searched(fields["searched"])})


@lru_cache(maxsize=1)
def _read(subject: str) -> tuple[Scenario, Source]:
    """Return the scenario of a subject, and the source of its tenants."""
    fields = json.loads(subject)
    read = Subject.read(Path(fields["file"]), fields["given"])
    if (read.scenario.digest(), dict(read.inputs)) != (fields["scenario_sha256"], fields["inputs"]):
        raise PlbError(f"{read.file}: the file or its inputs have changed since the search began; use --force")
    return read.scenario, read_source(read.scenario)


@lru_cache(maxsize=1)  # runs with the same tenants are consecutive, and traces are large
def _tenants(subject: str, question: str, value: float, repeat: int) -> TenantSequence:
    return tenants_at(_question(question), *_read(subject), value, repeat)
