"""Read a scenario from TOML. All problems of a file are reported at once, each with its place."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from enum import Enum
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import attrs
import cattrs

from cluster.errors import ScenarioError, ScenarioProblem
from cluster.fault_settings import Faults
from cluster.hardware import Cluster
from cluster.imports import import_files
from cluster.scenario import BUILT_IN_POLICIES, FIXED_METRIC_FIELDS, Run, Scenario, Workload
from cluster.sections import Section, check_field
from cluster.upgrade_settings import Upgrades
from plb import Metric, PlbConfig, PlbError
from plb.policies.interface import ANNEALING

SECTIONS: Mapping[str, type[Section]] = {
    "cluster": Cluster,
    "workload": Workload,
    "run": Run,
    "faults": Faults,
    "upgrades": Upgrades,
}
TOP_LEVEL = ("name", "imports", *SECTIONS, "metrics", "engine", "policies")
PATHS = ("path", "plan")
"""Fields of ``[workload]`` that name files."""
ENGINE_FIELDS = tuple(field.name for field in attrs.fields(PlbConfig) if field.name != "metrics")
METRIC_FIELDS = tuple(field.name for field in attrs.fields(Metric) if field.name not in FIXED_METRIC_FIELDS)


def read_scenario(path: str | Path) -> Scenario:
    """Read a scenario; its relative paths (`workload.path`, `workload.plan`, `imports`) count from the file's folder.

    The files in `imports` are run: they register the energy terms, constraints and policies that the scenario names.

    Raises
    ------
    ScenarioError
        The file cannot be read, or something in it is unknown or out of range; every problem is named, with its place.
    """
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise ScenarioError(str(path), [ScenarioProblem("file", error.strerror or str(error))]) from None
    except UnicodeDecodeError as error:
        raise ScenarioError(str(path), [ScenarioProblem("file", f"is no text in UTF-8 ({error})")]) from None
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ScenarioError(str(path), [ScenarioProblem("not valid TOML", str(error))]) from None
    scenario = scenario_from(data, source=str(path), text=text, name=file.stem, folder=file.parent)
    given = {name: getattr(scenario.workload, name) for name in PATHS}
    found: dict[str, Any] = {name: str(file.parent / path) for name, path in given.items() if path is not None}
    return attrs.evolve(scenario, workload=attrs.evolve(scenario.workload, **found))


def scenario_from(
    data: Mapping[str, Any], *, source: str = "scenario", text: str = "", name: str = "", folder: Path | None = None
) -> Scenario:
    """Return the scenario that a table of tables describes.

    Parameters
    ----------
    data
        What the TOML file says.
    source, text
        Its name and its text, for messages.
    name
        Name of the scenario where it gives none.
    folder
        From which the files in `imports` count; None: the present one.
    """
    reader = _Reader(text, Path() if folder is None else folder)
    scenario = reader.scenario({"name": name or source, **data})
    if reader.problems or scenario is None:
        raise ScenarioError(source, reader.problems)
    return scenario


class _Reader:
    """Reads the tables of a scenario and collects what is wrong with them."""

    def __init__(self, text: str, folder: Path) -> None:
        self.problems: list[ScenarioProblem] = []
        self._lines = text.splitlines()
        self._folder = folder
        self._converter = _strict_converter()

    def scenario(self, data: Mapping[str, Any]) -> Scenario | None:
        """Return the scenario that the tables describe, or None if something is wrong with them."""
        self._unknown_keys("", data, TOP_LEVEL)
        name = self._value("name", data["name"], str)
        imports = self._imports(data.get("imports", []))
        sections = {key: self._section(key, data.get(key, {}), kind) for key, kind in SECTIONS.items()}
        engine = self._engine_fields("engine", data.get("engine", {}), ANNEALING)
        tables = self._table("policies", data.get("policies", {}))
        searches = {
            key: BUILT_IN_POLICIES.get(key, {}).get("policy", engine.get("policy", ANNEALING)) for key in tables
        }
        policies = {key: self._policy(f"policies.{key}", fields, searches[key]) for key, fields in tables.items()}
        metrics = self._metrics("metrics", data.get("metrics", {}))
        self._policy_names(data, policies)
        if self.problems:
            return None
        try:
            return Scenario(name=name, imports=imports, engine=engine, policies=policies, metrics=metrics, **sections)
        except PlbError as error:
            self._add("scenario", str(error))
            return None

    def _imports(self, names: Any) -> tuple[str, ...]:
        """Run the files that the scenario imports, and return them by their full names."""
        checked: tuple[str, ...] = self._value("imports", names, tuple[str, ...]) or ()
        files = tuple(str((self._folder / name).resolve()) for name in checked)
        try:
            import_files(files)
        except ScenarioError as error:
            self.problems.extend(attrs.evolve(one, message=f"{error.source}: {one.message}") for one in error.problems)
        return files

    def _policy_names(self, data: Mapping[str, Any], policies: Iterable[str]) -> None:
        run = data.get("run", {})
        named = run.get("policies", []) if isinstance(run, Mapping) else []
        known = list(dict.fromkeys([*BUILT_IN_POLICIES, *policies]))
        if named == []:
            return
        for name in named if isinstance(named, list) else []:
            if isinstance(name, str) and name not in known:
                self._add("run.policies", f"unknown policy {name!r}{_nearest(name, known)}")

    def _section(self, place: str, table: Any, kind: type[Section]) -> Any:
        fields = {field.name: field for field in attrs.fields(kind)}
        hints = get_type_hints(kind)
        values = {}
        for key, value in self._known(place, table, fields).items():
            before = len(self.problems)
            values[key] = self._value(f"{place}.{key}", value, hints[key])
            if len(self.problems) == before:
                self._try(f"{place}.{key}", lambda key=key: check_field(place, fields[key], values[key]))
        if self.problems:
            return None
        for key, error in kind.conflicts(values):
            self._add(f"{place}.{key}", str(error))
        if self.problems:
            return None
        self._try(place, lambda: kind(**values))
        return None if self.problems else kind(**values)

    def _engine_fields(self, place: str, table: Any, policy: str) -> dict[str, Any]:
        """Return settings of the engine; `policy` is the one whose options they may give if they name none."""
        found = dict(self._table(place, table))
        options = {"policy_options": found.pop("policy_options")} if "policy_options" in found else {}
        fields = self._settings(place, found, ENGINE_FIELDS, PlbConfig, {"metrics": (Metric("any"),)})
        beside = {"metrics": (Metric("any"),), "policy": fields.get("policy", policy)}
        return {**fields, **self._settings(place, options, ENGINE_FIELDS, PlbConfig, beside)}

    def _policy(self, place: str, table: Any, policy: str) -> dict[str, Any]:
        """Return the fields of a policy, with those of its metrics under ``metrics`` if it has any."""
        found = dict(self._table(place, table))
        metrics = self._metrics(f"{place}.metrics", found.pop("metrics", {}))
        fields = self._engine_fields(place, found, policy)
        return {**fields, "metrics": metrics} if metrics else fields

    def _metrics(self, place: str, table: Any) -> dict[str, dict[str, Any]]:
        """Return the settings of metrics by metric."""
        return {
            key: self._settings(f"{place}.{key}", fields, METRIC_FIELDS, Metric, {"name": "any"})
            for key, fields in self._table(place, table).items()
        }

    def _settings(
        self, place: str, table: Any, known: Iterable[str], kind: type, others: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the settings in a table that are fields of `kind`; each is tried alone, beside `others`."""
        hints = get_type_hints(kind)
        values = {}
        for key, value in self._known(place, table, known).items():
            before = len(self.problems)
            values[key] = self._value(f"{place}.{key}", value, _as_text(hints[key]))
            if len(self.problems) == before:
                self._try(f"{place}.{key}", lambda key=key: kind(**others, **{key: values[key]}))
        return values

    def _known(self, place: str, table: Any, known: Iterable[str]) -> dict[str, Any]:
        """Return the entries of a table whose keys are known; note the others."""
        found = self._table(place, table)
        self._unknown_keys(place, found, known)
        return {key: value for key, value in found.items() if key in known}

    def _table(self, place: str, table: Any) -> Mapping[str, Any]:
        if isinstance(table, Mapping):
            return table
        self._add(place, f"{table!r} is not a table; write [{place}] and its keys below")
        return {}

    def _unknown_keys(self, place: str, table: Mapping[str, Any], known: Iterable[str]) -> None:
        names = list(known)
        for key in table:
            if key not in names:
                self._add(f"{place}.{key}" if place else key, f"unknown key {key!r}{_nearest(key, names)}")

    def _value(self, place: str, value: Any, kind: Any) -> Any:
        if get_origin(kind) is tuple and not isinstance(value, list | tuple):
            self._add(place, f"{value!r} is not allowed: expected a list, such as [{value!r}]")
            return None
        try:
            return self._converter.structure(value, kind)
        except Exception as error:
            self._add(place, _reason(error, value, kind))
            return None

    def _try(self, place: str, check: Any) -> None:
        try:
            check()
        except (PlbError, ValueError) as error:
            self._add(place, str(error))

    def _add(self, place: str, message: str) -> None:
        self.problems.append(ScenarioProblem(place, message, self._line(place)))

    def _line(self, place: str) -> int | None:
        """Return the line on which a key or section stands, as far as a search of the text can tell."""
        section, _, key = place.rpartition(".")
        header = re.compile(rf"\s*\[\s*{re.escape(section)}\s*\]")
        entry = re.compile(rf"\s*[\"']?{re.escape(key)}[\"']?\s*=")
        whole = re.compile(rf"\s*\[\s*{re.escape(place)}\s*\]")
        inside = not section
        for number, line in enumerate(self._lines, start=1):
            if line.lstrip().startswith("["):
                inside = bool(header.match(line))
            if whole.match(line) or (inside and entry.match(line)):
                return number
        return None


def _nearest(name: str, known: Iterable[str]) -> str:
    names = list(known)
    close = get_close_matches(name, names, n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else f"; known are {', '.join(names)}"


def _as_text(kind: Any) -> Any:
    """Return the literal texts that an enumeration stands for in a file; other types as they are."""
    if isinstance(kind, type) and issubclass(kind, Enum):
        return Literal.__getitem__(tuple(member.value for member in kind))
    return kind


def _reason(error: Exception, value: Any, kind: Any) -> str:
    """Return what is wrong in words; the errors of the members of a list stand in a group."""
    inner = sorted(getattr(error, "exceptions", ()), key=lambda one: isinstance(one, KeyError))
    if inner:
        return _reason(inner[0], value, kind)
    if isinstance(error, cattrs.errors.ForbiddenExtraKeysError):
        known = ", ".join(field.name for field in attrs.fields(error.cl))
        return f"{value!r} is not allowed: unknown key {', '.join(sorted(error.extra_fields))}; known are {known}"
    if isinstance(error, KeyError):
        return f"{value!r} is not allowed: the key {error} is missing"
    if get_origin(kind) is Literal:
        return f"{value!r} is not allowed: expected one of {', '.join(map(repr, get_args(kind)))}"
    return f"{value!r} is not allowed: {error}"


def _strict_converter() -> cattrs.Converter:
    """Return a converter that takes no text for a number and no fraction for a whole number."""
    converter = cattrs.Converter(prefer_attrib_converters=False, forbid_extra_keys=True)

    def expect(words: str, *types: type) -> Any:
        def structure(value: Any, kind: type) -> Any:
            if not isinstance(value, types) or (isinstance(value, bool) and kind is not bool):
                raise TypeError(f"expected {words}")
            return kind(value)

        return structure

    def is_table(kind: Any) -> bool:
        origin: Any = get_origin(kind)
        return origin is Mapping

    def expect_table(value: Any, _kind: Any) -> Any:
        if not isinstance(value, Mapping):
            raise TypeError("expected a table, such as { key = 1.0 }")
        return value

    converter.register_structure_hook_func(is_table, expect_table)
    converter.register_structure_hook(bool, expect("true or false", bool))
    converter.register_structure_hook(int, expect("a whole number", int))
    converter.register_structure_hook(float, expect("a number", int, float))
    converter.register_structure_hook(str, expect("text in quotes", str))
    return converter
