"""Demand traces in memory: one table of tenants, one of series, and all samples in one contiguous array.

Sample k of a series is the demand in the k-th metering interval of the life of the replica; every interval has one.
Shapes: T tenants, S series, N samples, R metrics, C classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

from plb.array_types import Bool, Float, Float32, Int, Int8, Int32
from plb.errors import ConflictError, InvalidValueError
from plb.model import Role
from workloads.ragged_arrays import bounds_of, rows_of

HOUR_SECONDS, DAY_SECONDS = 3600, 86_400
STEP_SECONDS = 600.0
"""Sampling interval of the paper's traces ([1] section 8.1: 10-minute granularity), seconds."""


@attrs.frozen
class MetricInfo:
    """A metric of a trace.

    Parameters
    ----------
    name
        Name, such as ``"disk"``.
    unit
        Unit of its values, such as ``"GB"``.
    trend
        True: demand grows to a maximum and stays (kept as M, G, I); False: no trend (kept as U90); [1] section 5.3.
    """

    name: str
    unit: str
    trend: bool = True


@attrs.frozen(eq=False, kw_only=True)
class TraceSet:
    """The demand of many tenants over their lives.

    Parameters
    ----------
    metrics
        The R metrics, in the order of the columns.
    step_seconds
        Sampling interval, seconds.
    classes
        Names of the tenant classes.
    tenant
        Names (str) or numbers (int64) of the tenants, shape (T,), all different; see `tenant_names`.
    family
        int64 (T,): tenants of one family (for example the windows of one machine) are on one side of a split. By
        default each tenant is its own family.
    start
        float64 (T,): when the tenants began, seconds since an origin that all have in common; None: not known.
    class_code
        int16 (T,): index into `classes`.
    replicas
        int8 (T,): target number of replicas.
    lifetime_steps
        int32 (T,): lifetime in steps, at least 1; every series of the tenant has as many samples.
    censored
        bool (T,): the lifetime was cut by the trace window; the true one is longer.
    max_usage
        float32 (T, R): MaxUsage, what a replica may use at the most ([1] section 3.2), in the metrics' units.
    series_tenant
        int32 (S,): tenant of the series.
    series_role
        int8 (S,): `plb.model.Role`. A tenant with several replicas has a primary's series and one that all its
        secondaries share; one with a single replica has only the primary's.
    series_start
        int64 (S + 1,): bounds of the series in `values`.
    values
        float32 (N, R): samples, contiguous, in the metrics' units.

    Attributes
    ----------
    series_index
        int32 (T, 3): series by tenant and `Role`, -1 where there is none. The demand of replicas in step k is
        ``values[series_start[series_index[tenant, role]] + k]``.
    """

    metrics: tuple[MetricInfo, ...]
    step_seconds: float = STEP_SECONDS
    classes: tuple[str, ...]
    tenant: npt.NDArray[Any]
    class_code: npt.NDArray[np.int16]
    replicas: Int8
    lifetime_steps: Int32
    censored: Bool
    max_usage: Float32
    series_tenant: Int32
    series_role: Int8
    series_start: Int
    values: Float32
    family: Int = attrs.field()
    start: Float | None = None
    series_index: Int32 = attrs.field(init=False, repr=False)

    @family.default
    def _singleton_family(self) -> Int:
        return np.arange(len(self.tenant), dtype=np.int64)

    def __attrs_post_init__(self) -> None:
        self._check_shapes()
        index = np.full((len(self.tenant), len(Role)), -1, np.int32)
        index[self.series_tenant, self.series_role] = np.arange(len(self.series_tenant), dtype=np.int32)
        object.__setattr__(self, "series_index", index)

    def _check_shapes(self) -> None:
        tenants, series, metrics = len(self.tenant), len(self.series_tenant), len(self.metrics)
        requested: dict[str, tuple[int, ...]] = dict.fromkeys(
            ("class_code", "replicas", "lifetime_steps", "censored", "family"), (tenants,)
        )
        requested |= {"max_usage": (tenants, metrics), "series_role": (series,), "series_start": (series + 1,)}
        requested |= {"values": (int(self.series_start[-1]), metrics)}
        if self.start is not None:
            requested["start"] = (tenants,)
        for field, shape in requested.items():
            found = getattr(self, field).shape
            if found != shape:
                raise InvalidValueError("trace set", field, found, f"an array of shape {shape}")
        lengths = np.diff(self.series_start)
        if not np.array_equal(lengths, self.lifetime_steps[self.series_tenant]):
            raise ConflictError("trace set: every series must have as many samples as its tenant has lifetime steps")

    @property
    def tenants(self) -> int:
        """Number of tenants."""
        return len(self.tenant)

    @property
    def samples(self) -> int:
        """Number of samples, each of all metrics."""
        return len(self.values)

    @property
    def lifetime_seconds(self) -> Int:
        """Lifetime of every tenant in whole seconds, shape (T,)."""
        return np.asarray(np.rint(self.lifetime_steps * self.step_seconds), np.int64)

    @property
    def metric_names(self) -> tuple[str, ...]:
        """Names of the metrics, in the order of the columns."""
        return tuple(metric.name for metric in self.metrics)

    def tenant_names(self) -> npt.NDArray[np.str_]:
        """Return the names of the tenants as strings, shape (T,)."""
        return np.asarray(self.tenant).astype(np.str_)

    def class_names(self) -> npt.NDArray[np.str_]:
        """Return the classes of the tenants as strings, shape (T,)."""
        return np.asarray(self.classes, dtype=np.str_)[self.class_code]

    def select(self, tenants: npt.ArrayLike) -> TraceSet:
        """Return the trace set of these tenants only, in this order.

        Parameters
        ----------
        tenants
            Indices, or a mask of shape (T,). Tenants of an index that occurs twice need other names.
        """
        chosen = np.arange(self.tenants)[np.asarray(tenants)]
        index = self.series_index[chosen]
        owner, role = np.nonzero(index >= 0)
        series = index[owner, role]
        rows, start = rows_of(series, self.series_start)
        return TraceSet(
            metrics=self.metrics,
            step_seconds=self.step_seconds,
            classes=self.classes,
            **{name: getattr(self, name)[chosen] for name in _TENANT_FIELDS},
            start=None if self.start is None else self.start[chosen],
            series_tenant=owner.astype(np.int32),
            series_role=role.astype(np.int8),
            series_start=start,
            values=self.values[rows],
        )


_TENANT_FIELDS = ("tenant", "family", "class_code", "replicas", "lifetime_steps", "censored", "max_usage")


def concatenate(sets: Sequence[TraceSet]) -> TraceSet:
    """Return one trace set of all tenants of these, which must agree in metrics, step and classes.

    The starts are known if they are in all parts.
    """
    first = sets[0]
    for other in sets[1:]:
        if (other.metrics, other.step_seconds, other.classes) != (first.metrics, first.step_seconds, first.classes):
            raise ConflictError("trace sets to be joined must agree in metrics, step and classes")
    offset = bounds_of(np.array([part.tenants for part in sets]))
    tenants = [part.series_tenant + np.int32(base) for part, base in zip(sets, offset, strict=False)]
    starts = [part.start for part in sets if part.start is not None]
    return TraceSet(
        metrics=first.metrics,
        step_seconds=first.step_seconds,
        classes=first.classes,
        **{name: np.concatenate([getattr(part, name) for part in sets]) for name in _TENANT_FIELDS},
        start=np.concatenate(starts) if len(starts) == len(sets) else None,
        series_tenant=np.concatenate(tenants),
        series_role=np.concatenate([part.series_role for part in sets]),
        series_start=bounds_of(np.concatenate([np.diff(part.series_start) for part in sets])),
        values=np.concatenate([part.values for part in sets]),
    )
