"""Snapshots of an engine: one JSON document of names and settings, and arrays by name; no pickle."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

from plb.array_types import Array
from plb.errors import InvalidValueError

ITEM = "snapshot"
"""Name of a snapshot in messages."""
FORMAT, VERSION = "plb_snapshot_version", 3
"""Name of the array with the version, and the version; another meaning of anything in a snapshot is another version."""
DOCUMENT = "document"
"""Name of the array with the JSON document, in UTF-8."""
NO_ARRAYS: Mapping[str, Array] = MappingProxyType({})
"""No arrays."""


@attrs.frozen(eq=False)
class Snapshot:
    """The whole state of an engine, from which `plb.PlacementAndLoadBalancing.from_snapshot` makes an equal one.

    It shares nothing with the engine. Two snapshots are equal if they hold the same. Their size is proportional to the
    number of nodes, services, partitions and replicas.
    """

    document: str
    """Names, numbers and settings, as JSON."""
    arrays: Mapping[str, Array]
    """Arrays by name; whole numbers of the engine have the smallest type that holds all of them."""

    @classmethod
    def of(
        cls, values: Mapping[str, Any], arrays: Mapping[str, Array], kept: Mapping[str, Array] = NO_ARRAYS
    ) -> Snapshot:
        """Return the snapshot of JSON values and copies of arrays: `arrays` in the smallest type, `kept` in theirs."""
        document = json.dumps(values, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        narrowed = {name: array.astype(_smallest(array)) for name, array in arrays.items()}
        return cls(document, narrowed | {name: array.copy() for name, array in kept.items()})

    def values(self) -> dict[str, Any]:
        """Return the values of the document, new each time."""
        try:
            values = json.loads(self.document)
        except (ValueError, RecursionError) as error:
            raise InvalidValueError(ITEM, DOCUMENT, str(error), "a JSON document") from None
        if not isinstance(values, dict):
            raise InvalidValueError(ITEM, DOCUMENT, type(values).__name__, "a JSON object")
        return values

    def to_bytes(self) -> bytes:
        """Return the snapshot as an uncompressed ``.npz`` file, which `numpy.load` reads with ``allow_pickle=False``.

        The array ``document`` is JSON in UTF-8. Equal snapshots have equal bytes.
        """
        document = np.frombuffer(self.document.encode("utf-8", "surrogatepass"), np.uint8)
        file = io.BytesIO()
        arrays: dict[str, Any] = {FORMAT: np.array([VERSION]), DOCUMENT: document, **self.arrays}
        np.savez(file, **arrays)
        return file.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes) -> Snapshot:
        """Return the snapshot that `to_bytes` has written.

        Raises
        ------
        InvalidValueError
            If the bytes are damaged, are no snapshot, or are of another version of the format.
        """
        allowed = "what Snapshot.to_bytes returned, whole and unchanged"
        if not isinstance(data, bytes | bytearray | memoryview):
            raise InvalidValueError(ITEM, "data", data, f"bytes: {allowed}")
        try:
            with np.load(io.BytesIO(data), allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            if len(arrays) != _listed_members(data):
                raise ValueError("a member of the archive is missing")
            version = arrays.pop(FORMAT).tolist()
            document = arrays.pop(DOCUMENT).tobytes().decode("utf-8", "surrogatepass")
        except Exception as error:  # NumPy and zipfile raise errors without a common class for other data
            raise InvalidValueError(ITEM, "data", f"{len(data)} bytes", allowed) from error
        if version != [VERSION]:
            raise InvalidValueError(ITEM, "version", version, f"[{VERSION}], the version that this program reads")
        return cls(document, arrays)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Snapshot) and self.to_bytes() == other.to_bytes()

    def __hash__(self) -> int:
        return hash(self.document)


def _smallest(array: Array) -> np.dtype[Any]:
    """Return the smallest type for the entries of an array of whole numbers; the type of another array."""
    if array.dtype.kind in "iu" and array.size:
        low, high = array.min(), array.max()
        for kind in map(np.dtype, ("u1", "i1", "u2", "i2", "u4", "i4")):
            if kind.itemsize < array.dtype.itemsize and np.iinfo(kind).min <= low and high <= np.iinfo(kind).max:
                return kind
    return array.dtype


def _listed_members(data: bytes | bytearray | memoryview) -> int:
    """Return the number of members that the end of a zip archive states, which `zipfile` does not check."""
    (count,) = struct.unpack_from("<H", data, len(data) - 12)
    return int(count)


def read_array(
    arrays: Mapping[str, Array],
    name: str,
    shape: tuple[int | None, ...],
    dtype: npt.DTypeLike,
    *,
    low: int | None = None,
    high: int | None = None,
) -> Array:
    """Return a copy, as `dtype`, of the array of a name after checks of its shape and of its entries: `low` to `high`.

    None in `shape` is any length. Whole numbers may be of another integer type. Raise `InvalidValueError` otherwise.
    """
    array, expected_dtype = arrays.get(name), np.dtype(dtype)
    allowed = f"an array of {expected_dtype.name} of shape {tuple('any' if n is None else n for n in shape)}"
    if array is None:
        raise InvalidValueError(ITEM, name, None, allowed)
    fits = array.ndim == len(shape) and all(n in (None, m) for n, m in zip(shape, array.shape, strict=True))
    are_integers = expected_dtype.kind in "iu" and array.dtype.kind in "iu"
    if not fits or not (are_integers or array.dtype == expected_dtype):
        raise InvalidValueError(ITEM, name, f"{array.dtype.name} {array.shape}", allowed)
    if are_integers and array.size:
        least = int(np.iinfo(expected_dtype).min) if low is None else low
        most = int(np.iinfo(expected_dtype).max) if high is None else high
        if array.min() < least:
            raise InvalidValueError(ITEM, name, array.min().item(), f"entries of at least {least}")
        if array.max() > most:
            raise InvalidValueError(ITEM, name, array.max().item(), f"entries of at most {most}")
    return np.array(array, expected_dtype, order="C")
