"""Compares two directories of results by value: Parquet tables column by column, JSON files key by key.

    python benchmarks/same_results.py results/before results/after
    python benchmarks/same_results.py results/before results/after --rename overload=expected_overload

Timings, plots and texts are not compared. The exit code is 1 if anything differs.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import polars as pl

NOT_COMPARED = {"timings.json", "timings.parquet", "columns.json"}
"""Durations, and descriptions of columns."""
LONGEST = 100
"""Letters of a value that are printed."""


def renamed(value: Any, names: Mapping[str, str]) -> Any:
    """Return a JSON value in which old names, as keys or texts, are replaced by new ones."""
    if isinstance(value, dict):
        return {names.get(key, key): renamed(one, names) for key, one in value.items()}
    if isinstance(value, list):
        return [renamed(one, names) for one in value]
    return names.get(value, value) if isinstance(value, str) else value


def differences_of_values(before: Any, after: Any, place: str) -> Iterator[str]:
    """Yield the places at which two JSON values differ, with both values."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted(before.keys() | after.keys()):
            if key not in before or key not in after:
                yield f"{place}/{key}: only {'before' if key in before else 'after'}"
            else:
                yield from differences_of_values(before[key], after[key], f"{place}/{key}")
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, pair in enumerate(zip(before, after, strict=True)):
            yield from differences_of_values(*pair, f"{place}/{index}")
    elif before != after:
        yield f"{place}: {str(before)[:LONGEST]} -> {str(after)[:LONGEST]}"


def differences_of_tables(before: pl.DataFrame, after: pl.DataFrame) -> Iterator[str]:
    """Yield the columns that differ, with the number of rows and the first pair of values."""
    for name in sorted({*before.columns} ^ {*after.columns}):
        yield f"{name}: only {'before' if name in before.columns else 'after'}"
    if before.height != after.height:
        yield f"{before.height} rows -> {after.height} rows"
        return
    for name in (name for name in before.columns if name in after.columns):
        differ = before[name].ne_missing(after[name])
        if differ.any():
            row = differ.arg_true()[0]
            yield f"{name}: {differ.sum()} rows, first {before[name][row]} -> {after[name][row]}"


def differences(before: Path, after: Path, names: Mapping[str, str]) -> Iterator[str]:
    """Yield all differences between two directories, each with its file."""
    for path in sorted(before.rglob("*")):
        if path.suffix not in (".json", ".parquet") or path.name in NOT_COMPARED:
            continue
        place = path.relative_to(before)
        # directories of runs are named POLICY-REPEAT
        parts = ["-".join(names.get(piece, piece) for piece in part.split("-")) for part in place.parts]
        other = after.joinpath(*parts)
        if not other.is_file():
            yield f"{place}: only before"
        elif path.suffix == ".parquet":
            table = pl.read_parquet(path).rename(dict(names), strict=False)
            texts = [name for name, kind in table.schema.items() if kind == pl.String]
            table = table.with_columns(pl.col(texts).replace(dict(names))) if texts and names else table
            yield from (f"{place}: {one}" for one in differences_of_tables(table, pl.read_parquet(other)))
        else:
            values = [renamed(json.loads(path.read_text()), names), json.loads(other.read_text())]
            for value in values:
                if isinstance(value, dict) and isinstance(value.get("runs"), list):
                    value["runs"].sort(key=lambda run: (str(run.get("policy")), str(run.get("repeat"))))
            yield from (f"{place}{one}" for one in differences_of_values(*values, ""))


def main() -> None:
    """Print the differences between two directories."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--rename", action="append", default=[], metavar="OLD=NEW", help="a name that has changed")
    arguments = parser.parse_args()
    names = dict(one.split("=", 1) for one in arguments.rename)
    found = list(differences(arguments.before, arguments.after, names))
    print("\n".join(found) if found else "no difference")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
