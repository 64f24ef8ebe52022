"""Conversion of a public trace to the format of this project, or to memory."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import polars as pl

from workloads.readers.base import Options, Reader, TracePart
from workloads.readers.external_sort import ConversionReport
from workloads.readers.files import check_readable
from workloads.trace import TraceSet, concatenate
from workloads.trace_files import TENANTS_FILE, TRACES_FILE, samples_frame, tenants_frame
from workloads.trace_validation import Header
from workloads.writing import in_one_piece, write_parquet


def convert(
    reader: Reader,
    source: str | Path,
    out: str | Path,
    options: Options | None = None,
    provenance: Mapping[str, Any] | None = None,
) -> ConversionReport:
    """Convert a public trace to a directory in the format of this project.

    What does not fit into memory is written to a scratch directory inside `out`, which is removed at the end.

    Parameters
    ----------
    reader
        The reader of its format; see `workloads.readers.READERS`.
    source
        File or directory of the public trace.
    out
        The directory; made where it is missing, and removed again where the conversion made it and fails.
    options
        How to convert; None: the defaults of `Options`.
    provenance
        Further provenance for the files, such as versions; plain JSON values.

    Returns
    -------
    ConversionReport
        The number of rows read, kept and refused, by reason.

    Raises
    ------
    TraceError
        A file is missing or damaged, a directory cannot be read, or a row cannot be read or belongs to nobody; it
        names file, row and column.
    """
    options, folder = options or Options(), Path(out)
    tally = ConversionReport(step_seconds=reader.step_seconds)
    with _created_directory(folder), tempfile.TemporaryDirectory(prefix=".scratch-", dir=folder) as name:
        scratch, parts = Path(name, "rows"), Path(name, "parts")
        scratch.mkdir()
        parts.mkdir()
        for number, part in enumerate(_parts(reader, source, options, tally, scratch)):
            write_parquet(samples_frame(part.traces), parts / f"traces-{number:05}.parquet")
            start = pl.Series(part.start_seconds, dtype=pl.Int64)
            write_parquet(
                tenants_frame(part.traces).with_columns(start_s=start), parts / f"tenants-{number:05}.parquet"
            )
        source_fields = {
            "reader": reader.name,
            "source": str(source),
            "origin": reader.origin,
            "request": reader.request,
        }
        results = {"options": attrs.asdict(options), "counts": attrs.asdict(tally)}
        _write_joined(parts, folder, reader, {**source_fields, **results, **(provenance or {})})
    return tally


def read_public(
    reader: Reader, source: str | Path, options: Options | None = None
) -> tuple[TraceSet, ConversionReport]:
    """Read a public trace into memory as `convert` does; return it, and the count of rows read, kept and refused."""
    tally = ConversionReport(step_seconds=reader.step_seconds)
    with tempfile.TemporaryDirectory() as name:
        parts = _parts(reader, source, options or Options(), tally, Path(name))
        sets = [attrs.evolve(part.traces, start=part.start_seconds.astype(np.float64)) for part in parts]
    classes = tuple(sorted({name for traces in sets for name in traces.classes}))
    return concatenate([_with_classes(traces, classes) for traces in sets]), tally


@contextmanager
def _created_directory(folder: Path) -> Iterator[None]:
    """Create a directory while the block runs; if that fails, remove all created directories that are empty."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        with suppress(OSError):  # a directory that is not empty stays, and its parents with it
            for path in missing:
                path.rmdir()
        raise


def _parts(
    reader: Reader, source: str | Path, options: Options, tally: ConversionReport, scratch: Path
) -> Iterator[TracePart]:
    """Yield the parts of a public trace, after a check that its directories can be read."""
    check_readable(Path(source))
    yield from reader.parts(Path(source), options, tally, scratch)


def _with_classes(traces: TraceSet, classes: tuple[str, ...]) -> TraceSet:
    """Return traces whose class codes are indices of `classes`, sorted names that include the traces' classes."""
    new_code = np.searchsorted(np.array(classes), np.array(traces.classes)).astype(np.int16)
    fields = {f.name: getattr(traces, f.name) for f in attrs.fields(TraceSet) if f.init}
    return TraceSet(**fields | {"classes": classes, "class_code": new_code[traces.class_code]})


def _write_joined(parts: Path, folder: Path, reader: Reader, provenance: dict[str, Any]) -> None:
    """Write the two files of a trace into `folder` from the files of its parts in `parts`, in order, as a stream."""
    for name, kind in ((TRACES_FILE, "traces"), (TENANTS_FILE, "tenants")):
        header = Header(kind=kind, metrics=reader.metrics, step_seconds=reader.step_seconds, provenance=provenance)
        pieces = sorted(parts.glob(f"{kind}-*.parquet"))
        with in_one_piece(folder / name) as partial:
            pl.scan_parquet(pieces, glob=False).sink_parquet(partial, metadata=header.metadata(), engine="streaming")
