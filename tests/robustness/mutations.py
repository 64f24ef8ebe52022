"""Hypothesis strategies that damage valid files: bytes, TOML, text tables and JSON; Parquet is in `parquet_mutations`.

Each strategy gives the bytes of a file. Structured strategies change values and keep the format valid, so that a reader
reaches its checks; `damaged_bytes` also breaks the format.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

HUGE = 10**40
NUMBERS = (0, -1, 1, 2, 3.5, -0.0, 1e-300, 1e30, 1e308, 2**31, 2**63, 2**64, HUGE, -HUGE, 10**400)
JUNK: tuple[Any, ...] = (*NUMBERS, float("nan"), float("inf"), float("-inf"), "", " ", "x", "é\u2028", True, False)
"""Replacement values for a text file."""
CELLS = (
    *(str(value) for value in JUNK),
    "1e999",
    "0x10",
    '"',
    "[1, 2",
    "(7, 2)",
    "1|2",
    "null",
    "-0",
    "\x00",
    "١",
    "1_0",
)
ENCODINGS = ("utf-16", "utf-32", "latin-1", "utf-8-sig")
DEPTH = 60


@st.composite
def damaged_bytes(draw: st.DrawFn, original: bytes) -> bytes:
    """Return bytes with changes: flipped, truncated, duplicated, or replaced."""
    how = draw(st.sampled_from(("flip", "flip", "cut", "cut off", "doubled", "insert", "empty", "other", "encoding")))
    place = draw(st.integers(0, max(len(original) - 1, 0)))
    if how == "flip":
        data = bytearray(original)
        for at in draw(st.lists(st.integers(0, max(len(data) - 1, 0)), min_size=1, max_size=8)) if data else ():
            data[at] ^= draw(st.integers(1, 255))
        return bytes(data)
    if how == "cut":
        return original[:place] + original[place + draw(st.integers(1, 64)) :]
    if how == "cut off":
        return original[:place]
    if how == "doubled":
        return original[:place] + original[max(0, place - 40) :]
    if how == "insert":
        return original[:place] + draw(st.binary(max_size=20)) + original[place:]
    if how == "encoding":
        text = original.decode("utf-8", errors="replace")
        return text.encode(draw(st.sampled_from(ENCODINGS)), errors="replace")
    return b"" if how == "empty" else draw(st.binary(max_size=200))


def nested(depth: int = DEPTH) -> list[Any]:
    found: list[Any] = []
    for _ in range(depth):
        found = [found]
    return found


def junk() -> st.SearchStrategy[Any]:
    """Return values of other types, extreme numbers, and nested lists and mappings."""
    deep = st.builds(nested, st.integers(1, DEPTH))
    return st.one_of(
        st.sampled_from(JUNK),
        st.sampled_from(([], {}, [1, "x"], {"x": {"y": 1}}, [[1, 2], [3]], [{"x": 1}], [float("nan")])),
        st.floats(allow_nan=True),
        st.integers(-(2**70), 2**70),
        st.text(max_size=10),
        deep,
    )


Place = tuple[Any, ...]


def places(data: Any, above: Place = ()) -> list[Place]:
    """Return the paths of all values in a tree of mappings and lists."""
    below = data.items() if isinstance(data, Mapping) else enumerate(data) if isinstance(data, list) else ()
    return [place for key, value in below for place in ((*above, key), *places(value, (*above, key)))]


def changed(data: Any, place: Place, change: Callable[[Any, Any], None]) -> Any:
    """Return a tree with a change of the container at this path."""
    copy = _copy(data)
    holder = copy
    for key in place[:-1]:
        holder = holder[key]
    change(holder, place[-1])
    return copy


def _copy(data: Any) -> Any:
    if isinstance(data, Mapping):
        return {key: _copy(value) for key, value in data.items()}
    return [_copy(value) for value in data] if isinstance(data, list) else data


@st.composite
def damaged_tree(draw: st.DrawFn, original: Any) -> Any:
    """Return a tree with values that are replaced, missing, or under another key."""
    data = original
    for _ in range(draw(st.integers(1, 3))):
        there = places(data)
        if not there:
            return data
        place = draw(st.sampled_from(there))
        how = draw(st.sampled_from(("other", "other", "other", "missing", "renamed", "beside")))
        value = draw(junk())

        def change(holder: Any, key: Any, how: str = how, value: Any = value) -> None:
            if how == "other" or (how != "missing" and isinstance(holder, list)):
                holder[key] = value
            elif how == "missing":
                del holder[key]
            elif how == "renamed":
                holder[f"{key}s"] = holder.pop(key)
            else:
                holder[f"un{key}"] = value

        data = changed(data, place, change)
    return data


def as_toml(data: Mapping[str, Any]) -> str:
    """Return a table of tables as TOML, with a header for each top-level table."""
    own = [f"{_key(key)} = {_value(value)}" for key, value in data.items() if not _is_section(value)]
    sections = [
        "\n".join([f"[{_key(key)}]", *(f"{_key(name)} = {_value(one)}" for name, one in value.items())])
        for key, value in data.items()
        if _is_section(value)
    ]
    return "\n".join([*own, *sections]) + "\n"


def _is_section(value: Any) -> bool:
    return isinstance(value, Mapping)


def _key(key: Any) -> str:
    return _value(str(key))


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"{value:d}"
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(key)} = {_value(one)}" for key, one in value.items()) + " }"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ", ".join(map(_value, value)) + "]"
    return json.dumps(str(value)).replace("\x7f", "\\u007f")


def toml(original: str) -> st.SearchStrategy[bytes]:
    data = tomllib.loads(original)
    structured = damaged_tree(data).map(lambda tree: as_toml(tree).encode("utf-8", errors="replace"))
    extra = st.sampled_from(
        ("\n[cluster]\n", "\nx = " + "[" * 2000, "\nx = 1979-05-27\n", "\nx.y.z = 1\n", "\n[[run]]\n", "\nname = 3\n")
    ).map(lambda more: (original + more).encode())
    return st.one_of(structured, structured, structured, extra, damaged_bytes(original.encode()))


def table(original: str, separator: str = ",") -> st.SearchStrategy[bytes]:
    """Return damaged text tables: cells, columns and rows are changed, missing, or duplicated."""
    rows = [line.split(separator) for line in original.splitlines()]
    return st.one_of(
        _cells(rows, separator), _cells(rows, separator), _lines(rows, separator), damaged_bytes(original.encode())
    )


@st.composite
def _cells(draw: st.DrawFn, rows: list[list[str]], separator: str) -> bytes:
    copy = [list(row) for row in rows]
    for _ in range(draw(st.integers(1, 4))):
        row = draw(st.sampled_from(copy))
        if row:
            row[draw(st.integers(0, len(row) - 1))] = draw(
                st.one_of(st.sampled_from(CELLS), st.text(max_size=6), st.floats().map(str), st.integers().map(str))
            )
    return _joined(copy, separator)


@st.composite
def _lines(draw: st.DrawFn, rows: list[list[str]], separator: str) -> bytes:
    copy = [list(row) for row in rows]
    how = draw(
        st.sampled_from(
            ("without", "twice", "column", "column twice", "short", "long", "swapped", "header only", "ends")
        )
    )
    at = draw(st.integers(0, max(len(copy) - 1, 0)))
    column = draw(st.integers(0, max(len(copy[0]) - 1, 0)))
    if how == "without":
        del copy[at]
    elif how == "twice":
        copy.insert(at, list(copy[at]))
    elif how == "column":
        copy = [row[:column] + row[column + 1 :] for row in copy]
    elif how == "column twice":
        copy = [row[: column + 1] + row[column:] for row in copy]
    elif how == "short":
        copy[at] = copy[at][:column]
    elif how == "long":
        copy[at] = [*copy[at], draw(st.sampled_from(CELLS))]
    elif how == "swapped":
        copy = [row[column:] + row[:column] for row in copy]
    elif how == "header only":
        copy = copy[:1]
    ends = "\r\n" if how == "ends" else "\n"
    return _joined(copy, separator, ends)


def _joined(rows: Sequence[Sequence[str]], separator: str, ends: str = "\n") -> bytes:
    return "".join(separator.join(row) + ends for row in rows).encode("utf-8", errors="replace")


def json_lines(original: str) -> st.SearchStrategy[bytes]:
    """Return damaged files of one JSON object per line."""
    lines = [json.loads(line) for line in original.splitlines()]
    trees = damaged_tree(lines).map(lambda found: "".join(as_json(one) + "\n" for one in found).encode())
    return st.one_of(trees, trees, damaged_bytes(original.encode()))


def json_file(original: str) -> st.SearchStrategy[bytes]:
    trees = damaged_tree(json.loads(original)).map(lambda found: as_json(found).encode())
    return st.one_of(trees, trees, trees, damaged_bytes(original.encode()))


def as_json(value: Any) -> str:
    """Return a value as JSON; non-finite numbers are written as by Python."""
    return json.dumps(value)
