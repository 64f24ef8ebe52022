"""Snapshots of an engine: one JSON document of names and settings, and arrays by name; no pickle.

Each structure of the engine gives its own part and takes it back: `RowTable.part` and `RowTable.of_part`, for example.
"""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Collection, Mapping
from typing import Any, NoReturn, TypeVar

import attrs
import numpy as np
import numpy.typing as npt

from plb.array_types import Array
from plb.errors import InvalidValueError

Kind = TypeVar("Kind")

ITEM = "snapshot"
"""How messages name it."""
FORMAT, VERSION = "plb_snapshot_version", 2
"""Name of the array with the version, and the version; another meaning of anything in a snapshot is another version."""
DOCUMENT = "document"
"""Name of the array with the JSON document, in UTF-8."""


@attrs.frozen(eq=False)
class Part:
    """A part of a snapshot.

    Parameters
    ----------
    values
        Names, numbers, switches and lists of these, as in JSON.
    arrays
        Arrays by name.
    name
        Name of the part, with which messages begin their fields.
    """

    values: Mapping[str, Any] = attrs.field(factory=dict)
    arrays: Mapping[str, Array] = attrs.field(factory=dict)
    name: str = ""

    def refuse(self, field: str, value: object, allowed: str) -> NoReturn:
        """Raise the error for a field that does not hold what is `allowed`."""
        raise InvalidValueError(ITEM, f"{self.name}.{field}" if self.name else field, value, allowed)

    def array(
        self,
        field: str,
        shape: tuple[int | None, ...],
        dtype: npt.DTypeLike,
        *,
        low: int | None = None,
        high: int | None = None,
    ) -> Array:
        """Return a new array with these entries.

        Parameters
        ----------
        shape
            None stands for any length.
        low, high
            Least and largest entry; None: any.

        Raises
        ------
        InvalidValueError
            If it is missing, or has another shape, entries of another type, or entries out of range.
        """
        array, wanted = self.arrays.get(field), np.dtype(dtype)
        allowed = f"an array of {wanted.name} of shape {tuple('any' if n is None else n for n in shape)}"
        if array is None:
            self.refuse(field, None, allowed)
        fits = array.ndim == len(shape) and all(n in (None, m) for n, m in zip(shape, array.shape, strict=True))
        same = array.dtype == wanted or (wanted == np.int64 and array.dtype.kind in "iu")
        if not fits or not (same or (wanted.kind == "i" and np.can_cast(array.dtype, wanted))):
            self.refuse(field, f"{array.dtype.name} {array.shape}", allowed)
        if array.size and low is not None and array.min() < low:
            self.refuse(field, array.min().item(), f"entries of at least {low}")
        if array.size and high is not None and array.max() > high:
            self.refuse(field, array.max().item(), f"entries of at most {high}")
        return np.array(array, wanted, order="C")

    def value(self, field: str, kind: type[Kind]) -> Kind:
        """Return a value of a type; a missing one, or one of another type, raises `InvalidValueError`."""
        value = self.values.get(field)
        if not _is_a(value, kind):
            self.refuse(field, value, f"a {kind.__name__}")
        return value  # type: ignore[return-value]

    def count(self, field: str, *, high: int | None = None) -> int:
        """Return a whole number of at least 0, at most `high`."""
        value = self.value(field, int)
        if value < 0 or (high is not None and value > high):
            self.refuse(field, value, "a whole number >= 0" + ("" if high is None else f" and <= {high}"))
        return value

    def entries(self, field: str, *kinds: type[Any]) -> list[tuple[Any, ...]]:
        """Return a list of tuples with values of these types."""
        found = self.value(field, list)
        for entry in found:
            fits = isinstance(entry, list) and len(entry) == len(kinds)
            if not fits or not all(_is_a(one, kind) for one, kind in zip(entry, kinds, strict=True)):
                self.refuse(field, entry, f"a list of {', '.join(kind.__name__ for kind in kinds)}")
        return [tuple(entry) for entry in found]

    def names(self, field: str) -> list[str]:
        """Return a list of names."""
        found = self.value(field, list)
        if not all(isinstance(name, str) for name in found):
            self.refuse(field, found, "a list of names")
        return found

    def sized(self, field: str, length: int) -> list[Any]:
        """Return a list of some length."""
        found = self.value(field, list)
        if len(found) != length:
            self.refuse(field, f"{len(found)} entries", f"{length} entries")
        return found

    def member(self, field: str, value: object, members: Collection[Any]) -> Any:
        """Return `value` if it is one of `members`."""
        if value not in members:
            self.refuse(field, value, f"one of {', '.join(map(str, members))}")
        return value

    def under(self, field: str) -> Part:
        """Return the part within this one under a name."""
        prefix = f"{field}."
        arrays = {name.removeprefix(prefix): array for name, array in self.arrays.items() if name.startswith(prefix)}
        return Part(self.value(field, dict), arrays, f"{self.name}.{field}" if self.name else field)


def _is_a(value: object, kind: type[Any]) -> bool:
    """Return whether a value of JSON is of a type: true and false are no numbers."""
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


def _listed_members(data: bytes | bytearray | memoryview) -> int:
    """Return how many members an archive says that it has, at its end; `zipfile` does not compare it."""
    (count,) = struct.unpack_from("<H", data, len(data) - 12)
    return int(count)


def joined(values: Mapping[str, Any], parts: Mapping[str, Part]) -> Part:
    """Return a part with other parts under their names."""
    arrays = {f"{name}.{field}": array for name, part in parts.items() for field, array in part.arrays.items()}
    return Part({**values, **{name: part.values for name, part in parts.items()}}, arrays)


def narrowed(arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Return arrays with whole numbers in the smallest type that holds all of them; other arrays as they are."""
    return {name: array.astype(_smallest(array)) for name, array in arrays.items()}


def _smallest(array: Array) -> np.dtype[Any]:
    """Return the smallest type for the entries of an array."""
    if array.dtype.kind in "iu" and array.size:
        low, high = array.min(), array.max()
        for kind in map(np.dtype, ("u1", "i1", "u2", "i2", "u4", "i4")):
            if kind.itemsize < array.dtype.itemsize and np.iinfo(kind).min <= low and high <= np.iinfo(kind).max:
                return kind
    return array.dtype


def _are_same(one: Array, other: Array) -> bool:
    """Return whether two arrays are written as the same bytes."""
    if one.dtype != other.dtype:
        one, other = (array.astype(_smallest(array)) for array in (one, other))
    alike = one.dtype == other.dtype and one.shape == other.shape and one.flags.fnc == other.flags.fnc
    return alike and one.tobytes() == other.tobytes()


@attrs.frozen(eq=False)
class Snapshot:
    """The whole state of an engine, from which `plb.PlacementAndLoadBalancing.from_snapshot` makes an equal one.

    It shares nothing with the engine. Two snapshots are equal if they hold the same. Their size is proportional to the
    number of nodes, services, partitions and replicas.
    """

    _document: str
    _arrays: Mapping[str, Array]

    @classmethod
    def of(cls, content: Part) -> Snapshot:
        """Return the snapshot of these values and arrays, which has to share no array with an engine."""
        return cls(
            json.dumps(content.values, ensure_ascii=False, allow_nan=False, separators=(",", ":")), content.arrays
        )

    def content(self) -> Part:
        """Return what it holds; the values are new each time, and `Part.array` returns copies.

        Raises
        ------
        InvalidValueError
            If the document is no JSON object.
        """
        try:
            values = json.loads(self._document)
        except (ValueError, RecursionError) as error:
            raise InvalidValueError(ITEM, DOCUMENT, str(error), "a JSON document") from None
        if not isinstance(values, dict):
            raise InvalidValueError(ITEM, DOCUMENT, type(values).__name__, "a JSON object")
        return Part(values, self._arrays)

    def to_bytes(self) -> bytes:
        """Return the snapshot as an uncompressed ``.npz`` file, which `numpy.load` reads with ``allow_pickle=False``.

        The array ``document`` is JSON in UTF-8. Equal snapshots have equal bytes.
        """
        document = np.frombuffer(self._document.encode("utf-8", "surrogatepass"), np.uint8)
        file = io.BytesIO()
        arrays: dict[str, Any] = {FORMAT: np.array([VERSION]), DOCUMENT: document, **narrowed(self._arrays)}
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
        if not isinstance(other, Snapshot) or self._document != other._document:
            return False
        names, those = list(self._arrays), list(other._arrays)
        return names == those and all(_are_same(self._arrays[name], other._arrays[name]) for name in names)

    def __hash__(self) -> int:
        return hash(self._document)
