"""Reads sections of a TOML file. All problems of a file are reported at once, each with its place."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from enum import Enum
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import attrs
import cattrs

from cluster.errors import ScenarioError, ScenarioProblem
from cluster.scenario.sections import Section, check_field
from plb import PlbError
from plb.errors import MOST_LISTED

Read = TypeVar("Read")
BYTE_ORDER_MARK = "\N{ZERO WIDTH NO-BREAK SPACE}"


def read_toml(path: str | Path) -> tuple[str, dict[str, Any]]:
    """Return the text of a TOML file, and its contents.

    Raise `ScenarioError` if the file cannot be read, or is not TOML.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise ScenarioError(str(path), [ScenarioProblem("", error.strerror or str(error))]) from None
    except UnicodeDecodeError as error:
        raise ScenarioError(str(path), [ScenarioProblem("", f"is not text in UTF-8 ({error})")]) from None
    except ValueError as error:  # no file can have the name
        raise ScenarioError(str(path), [ScenarioProblem("", str(error))]) from None
    if text.startswith(BYTE_ORDER_MARK):
        message = "begins with a byte order mark, which TOML does not allow; save it as UTF-8 without one"
        raise ScenarioError(str(path), [ScenarioProblem("", message)])
    try:
        return text, tomllib.loads(text)
    except ValueError as error:  # a number of thousands of digits raises no TOMLDecodeError
        raise ScenarioError(str(path), [ScenarioProblem("not valid TOML", str(error))]) from None
    except RecursionError:
        message = "lists or tables are nested too deeply"
        raise ScenarioError(str(path), [ScenarioProblem("not valid TOML", message)]) from None


class SectionReader:
    """Reads the tables of a file and collects their problems."""

    def __init__(self, text: str, folder: Path) -> None:
        self.problems: list[ScenarioProblem] = []
        self.folder = folder
        self._lines = text.splitlines()
        self._converter = _strict_converter()

    def checked(self, source: str, found: Read | None) -> Read:
        """Return what a file describes; raise `ScenarioError` with all problems, if there are any."""
        if self.problems or found is None:
            raise ScenarioError(source, self.problems)
        return found

    def section(self, place: str, table: Any, kind: type[Section]) -> Any:
        """Return the section in a table, or None if there are problems."""
        problems_before = len(self.problems)
        fields = {field.name: field for field in attrs.fields(kind)}
        hints = get_type_hints(kind)
        values = {}
        for key, value in self.known(place, table, fields).items():
            before = len(self.problems)
            values[key] = self.value(f"{place}.{key}", value, hints[key])
            if len(self.problems) == before:
                self.attempt(f"{place}.{key}", lambda key=key: check_field(place, fields[key], values[key]))
        if len(self.problems) == problems_before:
            for key, error in kind.conflicts(values):
                self.add(f"{place}.{key}", str(error))
        if len(self.problems) == problems_before:
            self.attempt(place, lambda: kind(**values))
        return kind(**values) if len(self.problems) == problems_before else None

    def settings(
        self,
        place: str,
        table: Any,
        known: Iterable[str],
        kind: type,
        others: Mapping[str, Any],
        check: Callable[[Any], None] = lambda _: None,
    ) -> dict[str, Any]:
        """Return the settings in a table that are fields of `kind`; each is checked alone, together with `others`.

        `check`: called with the object of each setting; raises an error to reject it.
        """
        hints = get_type_hints(kind)
        values = {}
        for key, value in self.known(place, table, known).items():
            before = len(self.problems)
            values[key] = self.value(f"{place}.{key}", value, as_text(hints[key]))
            if len(self.problems) == before:
                self.attempt(f"{place}.{key}", lambda key=key: check(kind(**others, **{key: values[key]})))
        return values

    def known(self, place: str, table: Any, known: Iterable[str]) -> dict[str, Any]:
        """Return the entries of a table with known keys; record the others as problems."""
        found = self.table(place, table)
        self.unknown_keys(place, found, known)
        return {key: value for key, value in found.items() if key in known}

    def table(self, place: str, table: Any) -> Mapping[str, Any]:
        """Return a table of the file; record a problem if it is not a table."""
        if isinstance(table, Mapping):
            return table
        self.add(place, f"{table!r} is not a table; write [{place}] and its keys below")
        return {}

    def unknown_keys(self, place: str, table: Mapping[str, Any], known: Iterable[str]) -> None:
        """Record the unknown keys of a table, each with the nearest known key."""
        names = list(known)
        for key in table:
            if key not in names:
                self.add(f"{place}.{key}" if place else key, f"unknown key {key!r}{nearest(key, names)}")

    def value(self, place: str, value: Any, kind: Any) -> Any:
        """Return a value converted to `kind`; if that fails, record a problem and return None."""
        if get_origin(kind) is tuple and not isinstance(value, list | tuple):
            self.add(place, f"{value!r} is not allowed: expected a list, such as [{value!r}]")
            return None
        try:
            return self._converter.structure(value, kind)
        except Exception as error:
            self.add(place, _reason(error, value, kind))
            return None

    def attempt(self, place: str, check: Any) -> None:
        """Record the error that a check raises."""
        try:
            check()
        except (PlbError, ValueError) as error:
            self.add(place, str(error))

    def add(self, place: str, message: str) -> None:
        """Record a problem, with its line."""
        self.problems.append(ScenarioProblem(place, message, self._line(place)))

    def _line(self, place: str) -> int | None:
        """Return the line of a key or section if a search of the text finds it."""
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


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a hint with the closest known name, or with all of them if they are few."""
    names = list(known)
    close = get_close_matches(name, names, n=1, cutoff=0.5)
    if close:
        return f"; did you mean {close[0]!r}?"
    if len(names) > MOST_LISTED:
        return f"; docs/reference/scenario.md lists the {len(names)} known ones"
    return f"; known are {', '.join(names)}"


def as_text(kind: Any) -> Any:
    """Return the literal texts of an enumeration in a file; other types are unchanged."""
    if isinstance(kind, type) and issubclass(kind, Enum):
        return Literal.__getitem__(tuple(member.value for member in kind))
    return kind


def _reason(error: Exception, value: Any, kind: Any) -> str:
    """Return the problem in words; the errors of the members of a list form a group."""
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
    """Return a converter that rejects text for a number and a fraction for a whole number."""
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
