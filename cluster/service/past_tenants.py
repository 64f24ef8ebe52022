"""Past tenants on the wire and in the log: the columns of a demand history."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from msgspec import Struct

from plb.array_types import Array
from plb.errors import InvalidValueError
from plb.risk import DemandHistory


class PastTenants(Struct, kw_only=True, forbid_unknown_fields=True):
    """Past tenants as demand models: the columns of `plb.risk.DemandHistory`, one row for each of T traces.

    The columns are the bytes of little-endian arrays, row by row; JSON has them in base64.
    """

    metrics: list[str]
    """Names of the R metrics."""
    classes: list[str]
    """Names of the tenant classes."""
    tenant_class: bytes
    """(T,) int16, positions in `classes`."""
    role: bytes
    """(T,) int8: 0 primary, 1 secondary, 2 instance."""
    lifetime: bytes
    """(T,) float32, seconds."""
    censored: bytes
    """(T,) bool: whether the end of the records cut the lifetime."""
    level: bytes
    initial: bytes
    growth: bytes
    maximum: bytes
    """(T, R) float32, as in `DemandHistory`."""

    @classmethod
    def of(cls, history: DemandHistory) -> PastTenants:
        """Return the columns of a history."""
        columns = {name: getattr(history, name).astype(dtype).tobytes() for name, (dtype, _) in PAST_COLUMNS.items()}
        return cls(metrics=[*history.metrics], classes=[*history.classes], **columns)

    def history(self) -> DemandHistory:
        """Return the history; columns that are none raise `PlbError`."""
        columns: dict[str, Array] = {}
        for name, (dtype, is_matrix) in PAST_COLUMNS.items():
            data, width = getattr(self, name), max(1, len(self.metrics)) if is_matrix else 1
            if len(data) % (np.dtype(dtype).itemsize * width):
                allowed = f"whole rows of {width} values of {dtype}"
                raise InvalidValueError("history", name, f"{len(data)} bytes", allowed)
            column = np.frombuffer(data, dtype)
            columns[name] = column.reshape(-1, width) if is_matrix else column
        codes = columns.pop("tenant_class")
        if len(codes) and not 0 <= codes.min() <= codes.max() < len(self.classes):
            raise InvalidValueError("history", "tenant_class", codes, f"positions in the {len(self.classes)} classes")
        names = [self.classes[code] for code in codes.tolist()]
        return DemandHistory.from_columns(self.metrics, tenant_class=names, **columns)


PAST_COLUMNS: Mapping[str, tuple[str, bool]] = {
    "tenant_class": ("<i2", False),
    "role": ("<i1", False),
    "lifetime": ("<f4", False),
    "censored": ("<u1", False),
    **dict.fromkeys(("level", "initial", "growth", "maximum"), ("<f4", True)),
}
"""Type of each column of past tenants, and whether it has a value for each metric."""
