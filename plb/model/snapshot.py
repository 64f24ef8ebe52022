"""Snapshots of an engine: one JSON document of names and settings, and arrays by name; no pickle.

Each structure of the engine gives its own part and takes it back: `RowTable.part` and `RowTable.of_part`, for example.
"""

from __future__ import annotations

import io
import json
from collections.abc import Collection, Mapping
from typing import Any, NoReturn, TypeVar

import attrs
import numpy as np
import numpy.typing as npt

from plb.errors import InvalidValueError

Array = npt.NDArray[Any]
Kind = TypeVar("Kind")

ITEM = "snapshot"
"""How messages name it."""
FORMAT, VERSION = "plb snapshot", 1
"""Another meaning or default of anything that a snapshot holds is another version."""
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
        if not isinstance(value, kind) or (kind is not bool and isinstance(value, bool)):
            self.refuse(field, value, f"a {kind.__name__}")
        return value

    def count(self, field: str) -> int:
        """Return a whole number of at least 0."""
        value = self.value(field, int)
        if value < 0:
            self.refuse(field, value, "a whole number >= 0")
        return value

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


def joined(values: Mapping[str, Any], parts: Mapping[str, Part]) -> Part:
    """Return a part with other parts under their names."""
    arrays = {f"{name}.{field}": array for name, part in parts.items() for field, array in part.arrays.items()}
    return Part({**values, **{name: part.values for name, part in parts.items()}}, arrays)


def narrow(array: Array) -> Array:
    """Return whole numbers in the smallest type that holds all of them; other arrays as they are."""
    if array.dtype.kind not in "iu" or not array.size:
        return array
    kinds = (np.uint8, np.int8, np.uint16, np.int16, np.uint32, np.int32) if array.dtype.itemsize > 1 else ()
    low, high = int(array.min()), int(array.max())
    for kind in kinds:
        if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max:
            return array.astype(kind)
    return array


@attrs.frozen(eq=False)
class Snapshot:
    """The whole state of an engine, from which `plb.PlacementAndLoadBalancing.from_snapshot` makes an equal one.

    It shares nothing with the engine. Two snapshots are equal if they hold the same. Their size is proportional to the
    number of nodes, services, partitions and replicas.
    """

    _content: Part

    @property
    def content(self) -> Part:
        """What it holds, part by part."""
        return self._content

    def to_bytes(self) -> bytes:
        """Return the snapshot as an uncompressed ``.npz`` file, which `numpy.load` reads with ``allow_pickle=False``.

        The array ``document`` is JSON in UTF-8. Equal snapshots have equal bytes.
        """
        document = {"format": FORMAT, "version": VERSION, **self._content.values}
        text = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        arrays = {name: narrow(array) for name, array in self._content.arrays.items()}
        arrays[DOCUMENT] = np.frombuffer(text.encode("utf-8", "surrogatepass"), np.uint8)
        file = io.BytesIO()
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
        if not isinstance(data, bytes | bytearray | memoryview):
            raise InvalidValueError(ITEM, "data", data, "bytes")
        arrays = _arrays_in(bytes(data))
        document = _document_in(arrays.pop(DOCUMENT, None))
        if document.pop("format", None) != FORMAT:
            raise InvalidValueError(ITEM, "format", document.get("format"), FORMAT)
        version = document.pop("version", None)
        if version != VERSION:
            raise InvalidValueError(ITEM, "version", version, f"{VERSION}, the version of this program")
        return cls(Part(document, arrays))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Snapshot) and self.to_bytes() == other.to_bytes()

    __hash__ = None  # type: ignore[assignment]


def _arrays_in(data: bytes) -> dict[str, Array]:
    """Return the arrays of an ``.npz`` file."""
    allowed = "what Snapshot.to_bytes returned, whole and unchanged"
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except Exception as error:  # NumPy and zipfile raise errors without a common class for other data
        raise InvalidValueError(ITEM, "data", f"{len(data)} bytes", allowed) from error


def _document_in(array: Array | None) -> dict[str, Any]:
    """Return the JSON document in an array of bytes."""
    try:
        document = json.loads(b"" if array is None else array.tobytes().decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError) as error:
        raise InvalidValueError(ITEM, DOCUMENT, str(error), "a JSON document") from None
    if not isinstance(document, dict):
        raise InvalidValueError(ITEM, DOCUMENT, type(document).__name__, "a JSON object")
    return document
