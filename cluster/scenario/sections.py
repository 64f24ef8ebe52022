"""The sections of a TOML file: their base, whose fields have ranges, and a reader that reports all problems at once."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import attrs
import cattrs

from cluster.errors import ScenarioError, ScenarioProblem, refusal
from plb.errors import MOST_LISTED, InvalidValueError, PlbError
from plb.validation import check_count, check_number

LONGEST = 1e6
"""The longest time in a scenario, in hours or minutes."""


@attrs.frozen
class Range:
    """The range of a number in a scenario; its ends are included unless they are open."""

    low: float = 0.0
    high: float = math.inf
    low_open: bool = False
    """Whether `low` itself is outside."""
    whole: bool = False
    """Whether only whole numbers are inside."""

    def check(self, item: str, field: str, value: Any) -> None:
        """Raise `InvalidValueError` if a value, or an entry of a tuple, is outside the range; None is not checked.

        `item`, `field`: the names of section and field in the message.
        """
        if isinstance(value, tuple):
            for index, entry in enumerate(value):
                self.check(item, f"{field}[{index}]", entry)
        elif value is not None:
            if self.whole:
                check_count(item, field, value, low=int(self.low))
            check_number(item, field, value, low=self.low, high=self.high, low_open=self.low_open)


def number(default: Any, *, low: float = 0.0, high: float = math.inf, low_open: bool = False) -> Any:
    """Return a field for a number in a range."""
    return attrs.field(default=default, metadata={"range": Range(low, high, low_open)})


def span(default: Any, *, low: float = 0.0, low_open: bool = False) -> Any:
    """Return a field for a time, or a tuple of times, in hours or minutes, of at most `LONGEST`."""
    return number(default, low=low, high=LONGEST, low_open=low_open)


def count(default: Any, *, low: int = 0, high: float = math.inf) -> Any:
    """Return a field for a whole number in a range."""
    return attrs.field(default=default, metadata={"range": Range(low, high, whole=True)})


def check_directory_name(item: str, name: str) -> None:
    """Raise `InvalidValueError` if `name`, of `item`, is not valid for a directory, which results need."""
    if directory_name(name) != name:
        raise InvalidValueError(item, "name", name, "a valid name of a directory, without / or \\")


def directory_name(name: str) -> str:
    """Return a name with _ in place of each character that is invalid in names of directories, or of the whole name."""
    valid = "".join("_" if letter in "/\\" or not letter.isprintable() else letter for letter in name)
    return "_" if not valid.strip() or valid in (".", "..") else valid


def check_is_file(item: str, field: str, path: str) -> None:
    """Raise `InvalidValueError` if the path, the value of the field of `item`, names no file."""
    if not Path(path).is_file():
        raise InvalidValueError(item, field, path, "the name of an existing file")


def check_field(item: str, field: attrs.Attribute[Any], value: Any) -> None:
    """Raise `InvalidValueError` if `value` is outside the range of a section's field; `item` names the section."""
    if "range" in field.metadata:
        field.metadata["range"].check(item, field.name, value)


def bounds_of(field: attrs.Attribute[Any]) -> dict[str, Any]:
    """Return the range of a section's field as keywords of a JSON schema."""
    limits = field.metadata.get("range")
    if limits is None:
        return {}
    bounds = {"exclusiveMinimum" if limits.low_open else "minimum": limits.low, "maximum": limits.high}
    return {keyword: bound for keyword, bound in bounds.items() if math.isfinite(bound)}


@attrs.frozen(kw_only=True)
class Section:
    """A section whose fields are checked when it is created."""

    def __attrs_post_init__(self) -> None:
        """Raise an error for a field out of its range, or for fields that do not agree."""
        values = {field.name: getattr(self, field.name) for field in attrs.fields(type(self))}
        for field in attrs.fields(type(self)):
            check_field(self.label(), field, values[field.name])
        for _, error in self.conflicts(values):
            raise error

    @classmethod
    def label(cls) -> str:
        """Return the name of the section in messages, as in a file."""
        return cls.__name__.removesuffix("Section").removeprefix("Node").lower()

    @classmethod
    def conflicts(cls, values: Mapping[str, Any]) -> Iterator[tuple[str, PlbError]]:  # noqa: ARG003
        """Yield a field and an error for each conflict among values in their ranges; omitted fields have defaults."""
        yield from ()


FromFile = TypeVar("FromFile")
BYTE_ORDER_MARK = "\N{ZERO WIDTH NO-BREAK SPACE}"


def read_toml(path: str | Path) -> tuple[str, dict[str, Any]]:
    """Return the text of a TOML file, and its contents; raise `ScenarioError` if there are none."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise refusal(str(path), "", error.strerror or str(error)) from None
    except UnicodeDecodeError as error:
        raise refusal(str(path), "", f"is not text in UTF-8 ({error})") from None
    except ValueError as error:  # no file can have the name
        raise refusal(str(path), "", str(error)) from None
    if text.startswith(BYTE_ORDER_MARK):
        message = "begins with a byte order mark, which TOML does not allow; save it as UTF-8 without one"
        raise refusal(str(path), "", message)
    try:
        return text, tomllib.loads(text)
    except ValueError as error:  # a number of thousands of digits raises no TOMLDecodeError
        raise refusal(str(path), "not valid TOML", str(error)) from None
    except RecursionError:
        raise refusal(str(path), "not valid TOML", "lists or tables are nested too deeply") from None


class SectionReader:
    """Reads the tables of a file and collects their problems.

    `text`: the file, for lines in messages; `folder`: the base of relative paths in the file. The dotted key of a table
    or a value says where it is in the file.
    """

    def __init__(self, text: str, folder: Path) -> None:
        self.problems: list[ScenarioProblem] = []
        self.folder = folder
        self._lines = text.splitlines()
        self._converter = _strict_converter()

    def checked(self, source: str, result: FromFile | None) -> FromFile:
        """Return `result`, which the file `source` describes; raise `ScenarioError` if there are problems."""
        if self.problems or result is None:
            raise ScenarioError(source, self.problems)
        return result

    def section(self, dotted_key: str, table: Any, kind: type[Section]) -> Any:
        """Return the section of type `kind` in a table, or None if there are problems."""
        problems_before, fields, hints = len(self.problems), attrs.fields_dict(kind), get_type_hints(kind)

        def check(key: str, value: Any) -> None:
            check_field(dotted_key, fields[key], value)

        values = self._values(dotted_key, table, {key: hints[key] for key in fields}, check)
        if len(self.problems) == problems_before:
            for key, error in kind.conflicts(values):
                self.add(f"{dotted_key}.{key}", str(error))
        return self.attempt(dotted_key, lambda: kind(**values)) if len(self.problems) == problems_before else None

    def settings(
        self,
        dotted_key: str,
        table: Any,
        keys: Iterable[str],
        kind: type,
        other_fields: Mapping[str, Any],
        check_object: Callable[[Any], None] = lambda _: None,
    ) -> dict[str, Any]:
        """Return the settings in a table that are fields `keys` of `kind`, each checked in an object of `kind`.

        `other_fields`: the other fields of this object; `check_object` raises an error if the object is invalid.
        """

        def check(key: str, value: Any) -> None:
            check_object(kind(**other_fields, **{key: value}))

        hints = get_type_hints(kind)
        return self._values(dotted_key, table, {key: as_text(hints[key]) for key in keys}, check)

    def _values(
        self, dotted_key: str, table: Any, types: Mapping[str, Any], check: Callable[[str, Any], None]
    ) -> dict[str, Any]:
        """Return the values of a table, converted to `types` by key; record unknown keys and invalid values.

        `check` raises an error if the value of a key is invalid.
        """
        entries = self.table(dotted_key, table)
        self.unknown_keys(dotted_key, entries, types)
        values = {}
        for key in filter(types.__contains__, entries):
            problems_before = len(self.problems)
            values[key] = self.value(f"{dotted_key}.{key}", entries[key], types[key])
            if len(self.problems) == problems_before:
                self.attempt(f"{dotted_key}.{key}", partial(check, key, values[key]))
        return values

    def table(self, dotted_key: str, table: Any) -> Mapping[str, Any]:
        """Return the contents of a table of the file; record a problem if it is not a table."""
        if isinstance(table, Mapping):
            return table
        self.add(dotted_key, f"{table!r} is not a table; write [{dotted_key}] and its keys below")
        return {}

    def unknown_keys(self, dotted_key: str, table: Mapping[str, Any], keys: Iterable[str]) -> None:
        """Record the keys of a table that are not among `keys`, each with the nearest known key."""
        for key in table:
            if key not in keys:
                self.add(f"{dotted_key}.{key}" if dotted_key else key, f"unknown key {key!r}{nearest(key, keys)}")

    def value(self, dotted_key: str, value: Any, kind: Any) -> Any:
        """Return a value converted to the type `kind`; if that fails, record a problem and return None."""
        if get_origin(kind) is tuple and not isinstance(value, list | tuple):
            self.add(dotted_key, f"{value!r} is not allowed: expected a list, such as [{value!r}]")
            return None
        try:
            return self._converter.structure(value, kind)
        except Exception as error:
            self.add(dotted_key, _reason(error, value, kind))
            return None

    def attempt(self, dotted_key: str, action: Callable[[], Any]) -> Any:
        """Return the result of an action; if it raises an error, record the error and return None."""
        try:
            return action()
        except (PlbError, ValueError) as error:
            self.add(dotted_key, str(error))
            return None

    def add(self, dotted_key: str, message: str) -> None:
        """Record a problem of a table or a value, with its line."""
        self.problems.append(ScenarioProblem(dotted_key, message, self._line(dotted_key)))

    def _line(self, dotted_key: str) -> int | None:
        """Return the line of the dotted key of a value or a section, if a search of the text finds it."""
        section, _, key = dotted_key.rpartition(".")
        section_header = re.compile(rf"\s*\[\s*{re.escape(section)}\s*\]")
        key_line = re.compile(rf"\s*[\"']?{re.escape(key)}[\"']?\s*=")
        own_header = re.compile(rf"\s*\[\s*{re.escape(dotted_key)}\s*\]")
        is_inside = not section
        for number, line in enumerate(self._lines, start=1):
            if line.lstrip().startswith("["):
                is_inside = bool(section_header.match(line))
            if own_header.match(line) or (is_inside and key_line.match(line)):
                return number
        return None


def nearest(name: str, known_names: Iterable[str]) -> str:
    """Return a hint with the closest known name, or with all of them if they are few."""
    names = list(known_names)
    close = get_close_matches(name, names, n=1, cutoff=0.5)
    if close:
        return f"; did you mean {close[0]!r}?"
    if len(names) > MOST_LISTED:
        return f"; docs/reference/scenario.md lists the {len(names)} known ones"
    return f"; known are {', '.join(names)}"


def as_text(kind: Any) -> Any:
    """Return the type of a setting in a file: the texts of an enumeration, or the type itself."""
    if isinstance(kind, type) and issubclass(kind, Enum):
        return Literal.__getitem__(tuple(member.value for member in kind))
    return kind


def _reason(error: Exception, value: Any, kind: Any) -> str:
    """Return in words why `value` is not of the type `kind`; the errors of the members of a list form a group."""
    member_errors = sorted(getattr(error, "exceptions", ()), key=lambda inner_error: isinstance(inner_error, KeyError))
    if member_errors:
        return _reason(member_errors[0], value, kind)
    if isinstance(error, cattrs.errors.ForbiddenExtraKeysError):
        keys = ", ".join(field.name for field in attrs.fields(error.cl))
        return f"{value!r} is not allowed: unknown key {', '.join(sorted(error.extra_fields))}; known are {keys}"
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

    def expect_table(value: Any, _kind: Any) -> Any:
        if not isinstance(value, Mapping):
            raise TypeError("expected a table, such as { key = 1.0 }")
        return value

    converter.register_structure_hook_func(lambda kind: getattr(kind, "__origin__", None) is Mapping, expect_table)
    converter.register_structure_hook(bool, expect("true or false", bool))
    converter.register_structure_hook(int, expect("a whole number", int))
    converter.register_structure_hook(float, expect("a number", int, float))
    converter.register_structure_hook(str, expect("text in quotes", str))
    return converter
