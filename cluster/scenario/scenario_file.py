"""Reads a scenario from TOML. All problems of a file are reported at once, each with its place.

`override` applies the options of the command line.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import attrs

from cluster.errors import ScenarioError
from cluster.scenario.cluster_sections import ClusterSection, Faults, Upgrades
from cluster.scenario.scenario import (
    BUILT_IN_POLICIES,
    FIXED_METRIC_FIELDS,
    RunSection,
    Scenario,
    extension_of,
    file_of,
    placement_policy,
)
from cluster.scenario.sections import Section, SectionReader, as_text, bounds_of, check_is_file, nearest, read_toml
from cluster.scenario.workload_sections import ApplicationsSection, Known, Scaling, Workload
from plb import ConflictError, InvalidValueError, Metric, PlbConfig, PlbError
from plb.engine_extensions import EngineExtensions, GivenExtensions, among, path_options
from plb.model.documents import SCHEMA_VERSION, Document, object_schema, schema_of
from plb.settings.config import ANNEALING
from workloads.trace_files import holds_traces

SECTIONS: Mapping[str, type[Section]] = {
    "cluster": ClusterSection,
    "workload": Workload,
    "run": RunSection,
    "faults": Faults,
    "upgrades": Upgrades,
}
NAMED_SECTIONS: Mapping[str, type[Section]] = {"applications": ApplicationsSection, "scaling": Scaling}
"""Groups of sections with names of the user's own."""
TOP_LEVEL = ("name", "extensions", *SECTIONS, *NAMED_SECTIONS, "metrics", "engine", "policies")
PATHS = ("path", "plan", "history_path")
"""Fields of ``[workload]`` that are paths of files."""
ENGINE_FIELDS = tuple(field.name for field in attrs.fields(PlbConfig) if field.name != "metrics")
DEPENDS_ON = {"larger_neighbourhoods": "larger_neighbourhood_share", "policy_options": "policy"}
"""Settings of the engine that are valid only together with another one of their table, and this other one."""
METRIC_FIELDS = tuple(field.name for field in attrs.fields(Metric) if field.name not in FIXED_METRIC_FIELDS)


def read_scenario(path: str | Path) -> Scenario:
    """Read a scenario; relative paths are relative to the folder of the file.

    This applies to `workload.path`, `workload.plan`, `workload.history_path`, `extensions`, and the files in
    `policy_options`. The files in `extensions` are run.

    Raises
    ------
    ScenarioError
        The file cannot be read, or has unknown keys or values out of range; every problem is reported with its place.
    """
    file = Path(path)
    text, data = read_toml(file)
    scenario = scenario_from(data, source=str(path), text=text, name=file.stem, folder=file.parent)
    paths = {name: getattr(scenario.workload, name) for name in PATHS}
    full_paths: dict[str, Any] = {name: str(file.parent / path) for name, path in paths.items() if path is not None}
    return attrs.evolve(scenario, workload=attrs.evolve(scenario.workload, **full_paths))


def named_files(scenario: Scenario) -> list[str]:
    """Return the files of the extensions of a scenario, and the files in options of its policies."""
    settings = [scenario.engine, *scenario.policies.values()]
    options = [option for fields in settings for option in fields.get("policy_options", {}).values()]
    files = dict.fromkeys(map(file_of, scenario.extensions))
    return [*files, *(option for option in options if isinstance(option, str) and Path(option).is_file())]


def inputs_of(scenario: Scenario) -> list[Path]:
    """Return all inputs of a scenario: files, and directories of traces."""
    paths = [getattr(scenario.workload, name) for name in PATHS]
    return [Path(path) for path in (*paths, *named_files(scenario)) if path is not None]


def scenario_from(
    data: Mapping[str, Any], *, source: str = "scenario", text: str = "", name: str = "", folder: Path | None = None
) -> Scenario:
    """Return the scenario that a table of tables, the contents of a TOML file, describes.

    `source`, `text`: name and text of the file, for messages; `name`: of the scenario if `data` has none; `folder`:
    base of relative paths in `extensions`, None: the current directory.
    """
    reader = _ScenarioReader(text, Path() if folder is None else folder)
    return reader.checked(source, reader.scenario({"name": name or source, **data}))


def scenario_schema() -> Document:
    """Return the JSON schema of the contents of scenario files, with which editors complete and check them."""
    sections = {key: schema_of(kind, bounds_of) for key, kind in SECTIONS.items()}
    groups = {key: _by_name(schema_of(kind, bounds_of)) for key, kind in NAMED_SECTIONS.items()}
    engine = _only(PlbConfig, ENGINE_FIELDS)
    metrics = _by_name(object_schema(_only(Metric, METRIC_FIELDS), ()))
    properties = {
        "name": schema_of(str),
        "extensions": schema_of(tuple[str, ...]),
        **sections,
        **groups,
        "metrics": metrics,
        "engine": object_schema(engine, ()),
        "policies": _by_name(object_schema({**engine, "metrics": metrics, "applications": schema_of(Known)}, ())),
    }
    return {"$schema": SCHEMA_VERSION, "title": "A scenario of plb", **object_schema(properties, ())}


def _only(kind: type, names: Iterable[str]) -> Document:
    """Return the JSON schemas of some fields of a class of the engine, by name."""
    properties = schema_of(kind)["properties"]
    return {name: properties[name] for name in names}


def _by_name(schema: Document) -> Document:
    """Return the JSON schema of objects with this schema under names of the user's own."""
    return {"type": "object", "additionalProperties": schema}


class _ScenarioReader(SectionReader):
    """Reads the tables of a scenario."""

    def __init__(self, text: str, folder: Path) -> None:
        super().__init__(text, folder)
        self.extensions: list[Any] = []
        """The objects of the extensions that the scenario names."""

    def scenario(self, data: Mapping[str, Any]) -> Scenario | None:
        """Return the scenario that the tables describe, or None if there are problems."""
        self.unknown_keys("", data, TOP_LEVEL)
        name = self.value("name", data["name"], str)
        extensions = self._extensions(data.get("extensions", []))
        sections = {key: self.section(key, data.get(key, {}), kind) for key, kind in SECTIONS.items()}
        for group, kind in NAMED_SECTIONS.items():
            tables = self.table(group, data.get(group, {}))
            sections[group] = {key: self.section(f"{group}.{key}", fields, kind) for key, fields in tables.items()}
        engine = self._engine_fields("engine", data.get("engine", {}), ANNEALING)
        tables = self.table("policies", data.get("policies", {}))
        searches = {
            key: BUILT_IN_POLICIES.get(key, {}).get("policy", engine.get("policy", ANNEALING)) for key in tables
        }
        policies = {key: self._policy(f"policies.{key}", fields, searches[key]) for key, fields in tables.items()}
        metrics = self._metrics("metrics", data.get("metrics", {}))
        self._policy_names(data, policies)
        if self.problems:
            return None
        try:
            return Scenario(
                name=name,
                extensions=extensions,
                engine=engine,
                policies=policies,
                metrics=metrics,
                **sections,
            )
        except PlbError as error:
            self.add(_place_of(error), str(error))
            return None

    def _extensions(self, names: Any) -> tuple[str, ...]:
        """Return the extensions that a scenario names with full paths; keep the objects for the checks of settings."""
        checked: tuple[str, ...] = self.value("extensions", names, tuple[str, ...]) or ()
        references = []
        for name in checked:
            file, colon, item = name.rpartition(":")
            if not colon:
                self.add("extensions", f"{name!r}: expected FILE.py:OBJECT")
                continue
            references.append(f"{(self.folder / file).resolve()}:{item}")
            try:
                self.extensions.append(extension_of(references[-1]))
            except ScenarioError as error:
                for problem in error.problems:
                    self.add("extensions", f"{error.source}: {problem.message}")
        return tuple(references)

    def _check_extensions(self, config: PlbConfig) -> None:
        """Raise an error if settings name an extension that the scenario lacks, or options that a policy lacks."""
        EngineExtensions.resolve(config, GivenExtensions.of(**among(self.extensions, config)))

    def _policy_names(self, data: Mapping[str, Any], policy_sections: Iterable[str]) -> None:
        """Record a problem for each policy in ``run.policies`` of `data` that is not built in and has no section."""
        run = data.get("run", {})
        run_policies = run.get("policies", []) if isinstance(run, Mapping) else []
        allowed_names = list(dict.fromkeys([*BUILT_IN_POLICIES, *policy_sections]))
        for name in run_policies if isinstance(run_policies, list) else []:
            if isinstance(name, str) and name not in allowed_names:
                self.add("run.policies", f"unknown policy {name!r}{nearest(name, allowed_names)}")

    def _engine_fields(self, dotted_key: str, table: Any, default_policy: str) -> dict[str, Any]:
        """Return the settings of the engine in a table.

        `default_policy`: the placement policy that their options belong to if the table sets none.
        """
        entries = dict(self.table(dotted_key, table))
        dependent = {name: entries.pop(name) for name in DEPENDS_ON if name in entries}
        other_fields: dict[str, Any] = {"metrics": (Metric("any"),)}
        fields = self.settings(dotted_key, entries, ENGINE_FIELDS, PlbConfig, other_fields, self._check_extensions)
        present = {"policy": default_policy, **fields}
        for name, value in dependent.items():
            other = DEPENDS_ON[name]
            with_other = {**other_fields, other: present[other]} if other in present else other_fields
            problems_before = len(self.problems)
            fields |= self.settings(
                dotted_key, {name: value}, ENGINE_FIELDS, PlbConfig, with_other, self._check_extensions
            )
            if name == "policy_options" and len(self.problems) == problems_before:
                fields[name] = self._full_paths(f"{dotted_key}.{name}", present["policy"], fields[name])
        return fields

    def _full_paths(self, dotted_key: str, policy: str, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options of a placement policy, with files relative to the folder as full paths."""
        options_with_paths = dict(options)
        for name in path_options(placement_policy(policy, self.extensions)):
            if name in options_with_paths:
                options_with_paths[name] = str(self.folder / options_with_paths[name])
                self.attempt(f"{dotted_key}.{name}", partial(check_is_file, dotted_key, name, options_with_paths[name]))
        return options_with_paths

    def _policy(self, dotted_key: str, table: Any, default_policy: str) -> dict[str, Any]:
        """Return the fields of a policy of the scenario, with any fields of metrics under ``metrics``.

        `default_policy`: the placement policy that its options belong to if the table sets none.
        """
        entries = dict(self.table(dotted_key, table))
        fields: dict[str, Any] = {}
        metrics = self._metrics(f"{dotted_key}.metrics", entries.pop("metrics", {}))
        if "applications" in entries:
            fields["applications"] = self.value(
                f"{dotted_key}.applications", entries.pop("applications"), as_text(Known)
            )
        if metrics:
            fields["metrics"] = metrics
        return {**self._engine_fields(dotted_key, entries, default_policy), **fields}

    def _metrics(self, dotted_key: str, table: Any) -> dict[str, dict[str, Any]]:
        """Return the settings of each metric, by name."""
        metrics = {}
        for key, fields in self.table(dotted_key, table).items():
            settings = dict(self.table(f"{dotted_key}.{key}", fields))
            for name in (*FIXED_METRIC_FIELDS, "step"):
                if name in settings:
                    del settings[name]
                    self.add(f"{dotted_key}.{key}.{name}", "cannot be set in a scenario: the workload determines it")
            metrics[key] = self.settings(f"{dotted_key}.{key}", settings, METRIC_FIELDS, Metric, {"name": key})
        return metrics


def _place_of(error: PlbError) -> str:
    """Return the key that an error of a whole scenario is about, or ``scenario``."""
    if not isinstance(error, InvalidValueError):
        return "scenario"
    return error.field if error.item == "scenario" else f"{error.item}.{error.field}"


OVERRIDDEN: Mapping[str, tuple[str, ...]] = {
    "run": ("policies", "seed", "repeats", "days"),
    "workload": ("density", "kind", "path"),
}
"""Fields that the command line can override, by section."""


def override(scenario: Scenario, **options: Any) -> Scenario:
    """Return a scenario with options of the command line; None keeps a value.

    Raise `ConflictError` if traces are given for the tenants of a plan, or a density for recorded arrivals.
    """
    traces = options.pop("traces")
    if traces is not None and scenario.workload.kind == "plan":
        raise ConflictError(f"{scenario.name}: its tenants come from a plan; --traces does not apply")
    values = {key: value for key, value in options.items() if value is not None}
    if "policy" in values:
        values["policies"] = tuple(dict.fromkeys(values.pop("policy")))
    if "density" in values and scenario.workload.arrivals == "recorded":
        raise ConflictError(f"{scenario.name}: its arrivals are recorded; --density does not apply")
    workload = {"density": values.pop("density")} if "density" in values else {}
    if traces is not None:
        workload["path"] = str(traces)
        if scenario.workload.kind == "region" or holds_traces(traces):
            workload["kind"] = "traces"
    run = attrs.evolve(scenario.run, **values)
    return attrs.evolve(scenario, run=run, workload=attrs.evolve(scenario.workload, **workload))
