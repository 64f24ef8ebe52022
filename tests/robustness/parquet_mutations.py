"""Hypothesis strategies that damage Parquet files: types, values, columns, rows, metadata and bytes."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import polars as pl
from hypothesis import strategies as st

from tests.robustness.mutations import as_json, damaged_bytes, damaged_tree

DTYPES = (
    *(pl.String, pl.Int8, pl.UInt8, pl.Int16, pl.Int32, pl.Int64, pl.UInt64, pl.Float32, pl.Float64, pl.Boolean),
    *(pl.Categorical, pl.Binary, pl.Date, pl.Datetime, pl.Time, pl.Duration, pl.Null, pl.Decimal(20, 4), pl.Int128),
    *(pl.List(pl.Float64), pl.List(pl.String), pl.Struct({"x": pl.Int64}), pl.Array(pl.Float64, 2), pl.Enum(["x"])),
)
VALUES = (
    None,
    float("nan"),
    float("inf"),
    -float("inf"),
    -1,
    0,
    1,
    1e30,
    1e308,
    -0.5,
    2**31,
    2**62,
    "",
    " ",
    "x",
    True,
)


def parquet(original: bytes, metadata_key: str | None = None) -> st.SearchStrategy[bytes]:
    """Return damaged Parquet files; `metadata_key` is the key of JSON metadata."""
    frame = pl.read_parquet(io.BytesIO(original))
    known = {
        key: value for key, value in pl.read_parquet_metadata(io.BytesIO(original)).items() if key != "ARROW:schema"
    }
    ways = [_frames(frame).map(lambda found: _written(found, known))] * 3 + [_damaged_footer(original)]
    if metadata_key is not None:
        ways.append(
            st.one_of(
                damaged_tree(json.loads(known[metadata_key])).map(as_json),
                damaged_bytes(known[metadata_key].encode()).map(lambda data: data.decode("utf-8", errors="replace")),
                st.none(),
            ).map(lambda text: _written(frame, {} if text is None else {metadata_key: text}))
        )
    return st.one_of(*ways)


def _damaged_footer(original: bytes) -> st.SearchStrategy[bytes]:
    """Return files that are truncated, or have damaged descriptions of their columns.

    The part above is unchanged: for a damaged page header, Polars may request 2^61 bytes and end the process.
    """
    above = len(original) - 8 - int.from_bytes(original[-8:-4], "little")
    whole = st.integers(0, len(original) - 1).map(lambda end: original[:end])
    return st.one_of(whole, damaged_bytes(original[above:]).map(lambda footer: original[:above] + footer))


def _written(frame: pl.DataFrame, metadata: Mapping[str, str]) -> bytes:
    """Return a Parquet file, without columns if their types cannot be written."""
    file = io.BytesIO()
    try:
        frame.write_parquet(file, metadata=dict(metadata))
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
        return _written(frame.clear().select(), metadata)
    return file.getvalue()


@st.composite
def _frames(draw: st.DrawFn, frame: pl.DataFrame) -> pl.DataFrame:
    """Return data frames with changed types, missing columns, other values, nulls, no rows or duplicates."""
    for _ in range(draw(st.integers(1, 2))):
        how = draw(
            st.sampled_from(("value", "value", "value", "dtype", "dtype", "missing", "renamed", "rows", "column"))
        )
        name = draw(st.sampled_from(frame.columns)) if frame.columns else None
        if name is None:
            return frame
        if how == "value" and len(frame):
            frame = _with_value(frame, name, draw(st.integers(0, len(frame) - 1)), draw(st.sampled_from(VALUES)))
        elif how == "dtype":
            frame = _with_dtype(frame, name, draw(st.sampled_from(DTYPES)))
        elif how == "missing":
            frame = frame.drop(name)
        elif how == "renamed":
            frame = frame.rename({name: f"{name}s"})
        elif how == "rows":
            frame = draw(st.sampled_from((frame.clear(), frame.head(1), frame.reverse(), pl.concat([frame, frame]))))
        elif how == "column":
            value = draw(st.sampled_from(VALUES))
            frame = frame.with_columns(pl.Series(name, [value] * len(frame), strict=False))
    return frame


def _with_value(frame: pl.DataFrame, name: str, row: int, value: Any) -> pl.DataFrame:
    """Return a frame with another value in one cell. The type of the column is widened if necessary."""
    values = frame[name].to_list()
    values[row] = value
    for type_ in ({"dtype": frame[name].dtype, "strict": True}, {"strict": False}):
        with suppress(TypeError, OverflowError, pl.exceptions.PolarsError, pl.exceptions.PanicException):
            return frame.with_columns(pl.Series(name, values, **type_))
    return frame


def _with_dtype(frame: pl.DataFrame, name: str, dtype: Any) -> pl.DataFrame:
    try:
        return frame.with_columns(frame[name].cast(dtype, strict=False))
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
        return frame.with_columns(pl.Series(name, [None] * len(frame), dtype=dtype))
