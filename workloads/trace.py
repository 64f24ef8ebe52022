"""Demand traces in memory: one table of tenants, one of series, and all samples in one contiguous array.

Sample k of a series is the demand in the k-th metering interval of the life of the replica; every interval has one.
Shapes: T tenants, S series, N samples, R metrics, C classes. Rows of series and
of tenants are consecutive segments (`Bounds`), each of at least a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import attrs
import numpy as np
import numpy.typing as npt

from plb.array_types import Bool, Float, Float32, Int, Int8, Int32
from plb.errors import ConflictError, InvalidValueError, PlbError
from plb.model import Role
from plb.validation import check_count, check_number

Bounds: TypeAlias = Int
"""int64 (S + 1,): bounds of S consecutive segments of rows; segment i has the rows ``bounds[i]:bounds[i + 1]``."""


def bounds_of(lengths: npt.NDArray[Any]) -> Bounds:
    """Return the bounds, (S + 1,), of segments of S lengths: segment s has the rows bounds[s] to bounds[s + 1] - 1."""
    bounds = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=bounds[1:])
    return bounds


def per_row(per_segment: npt.NDArray[Any], bounds: Bounds) -> npt.NDArray[Any]:
    """Return a value for each row from a value for each segment: (N,) from (S,), or (N, R) from (S, R)."""
    return np.repeat(per_segment, np.diff(bounds), axis=0)


def step_of_row(bounds: Bounds) -> Int32:
    """Return the position of each row in its segment, from 0, (N,)."""
    rows = np.arange(bounds[-1], dtype=np.int32)
    rows -= per_row(bounds[:-1].astype(np.int32), bounds)
    return rows


def rows_of(segments: npt.NDArray[Any], bounds: Bounds) -> tuple[Int, Bounds]:
    """Return the indices of the rows of some segments, one segment after the other, and the bounds of these segments.

    `segments`, (S',), are indices; the bounds, (S' + 1,), are positions in the returned rows.
    """
    chosen = bounds_of(np.diff(bounds)[segments])
    return np.arange(chosen[-1]) + per_row(bounds[segments] - chosen[:-1], chosen), chosen


def first_where(mask: Bool, bounds: Bounds) -> Int:
    """Return the position of the first row of each segment, (S,), with `mask`, (N,), true; without one, its length."""
    hits = np.flatnonzero(mask)
    next_hit = np.searchsorted(hits, bounds[:-1])
    first = np.append(hits, bounds[-1])[next_hit]
    return np.asarray(np.minimum(first, bounds[1:]) - bounds[:-1], np.int64)


def rows_from(first: Int, bounds: Bounds) -> Bool:
    """Return whether each row, (N,), is at or after position `first`, (S,), of its segment."""
    return np.asarray(step_of_row(bounds) >= per_row(first, bounds))


def maximum(rows: Float32, bounds: Bounds) -> Float32:
    """Return the maximum of each segment, (S,) or (S, R), of `rows`, (N,) or (N, R)."""
    return np.asarray(np.maximum.reduceat(rows, bounds[:-1], axis=0))


def highest_ahead(rows: npt.NDArray[Any], bounds: Bounds, steps: int) -> npt.NDArray[Any]:
    """Return, for each row, the maximum of it and of the next `steps` rows of its segment, in the shape of `rows`."""
    last = per_row(bounds[1:] - 1, bounds)
    row = np.arange(len(rows))
    highest, width = rows, 1
    while width <= steps:
        further = min(width, steps + 1 - width)
        highest = np.maximum(highest, highest[np.minimum(row + further, last)])
        width += further
    return highest


def minimum(rows: Float32, bounds: Bounds) -> Float32:
    """Return the minimum of each segment, (S,) or (S, R), of `rows`, (N,) or (N, R)."""
    return np.asarray(np.minimum.reduceat(rows, bounds[:-1], axis=0))


def mean(rows: Float32, bounds: Bounds) -> Float:
    """Return the mean of each segment, (S,) or (S, R), of `rows`, (N,) or (N, R), summed in double precision."""
    total = np.add.reduceat(rows, bounds[:-1], axis=0, dtype=np.float64)
    return np.asarray((total.T / np.diff(bounds)).T)


def percentile(rows: Float32, bounds: Bounds, share: float) -> Float32:
    """Return the nearest-rank percentile of each segment, (S,): rank ceil(share·n) of its n rows, (N,), all >= 0."""
    # floats of at least 0 sort like their bits, so one sort of (segment, bits) orders all segments
    keys = per_row(np.arange(len(bounds) - 1, dtype=np.uint64) << np.uint64(32), bounds)
    keys |= np.ascontiguousarray(rows + np.float32(0.0), np.float32).view(np.uint32)
    keys.sort()
    # a share such as 0.9 is a hair more than it says: take it back, so that 10 rows give rank 9
    rank = np.ceil(share * np.diff(bounds) - 1e-9).astype(np.int64) - 1
    bits = keys[bounds[:-1] + np.maximum(rank, 0)].astype(np.uint32)
    return bits.view(np.float32)


HOUR_SECONDS, DAY_SECONDS = 3600, 86_400
STEP_SECONDS = 600.0
"""Sampling interval of the paper's traces ([1] section 8.1: 10-minute granularity), seconds."""


@attrs.frozen
class MetricInfo:
    """A metric of a trace."""

    name: str
    """Name, such as ``"disk"``."""
    unit: str
    """Unit of its values, such as ``"GB"``."""
    trend: bool = True
    """True: demand grows to a maximum and stays (kept as M, G, I); False: no trend (kept as U90); [1] section 5.3."""


@attrs.frozen(eq=False, kw_only=True)
class TraceSet:
    """The demand of many tenants over their lives."""

    metrics: tuple[MetricInfo, ...]
    """The R metrics, in the order of the columns."""
    step_seconds: float = STEP_SECONDS
    """Sampling interval, seconds."""
    classes: tuple[str, ...]
    """Names of the tenant classes."""
    tenant: npt.NDArray[Any]
    """Names (str) or numbers (int64) of the tenants, shape (T,), all different; see `tenant_names`."""
    class_code: npt.NDArray[np.int16]
    """int16 (T,): index into `classes`."""
    replicas: Int8
    """int8 (T,): target number of replicas."""
    lifetime_steps: Int32
    """int32 (T,): lifetime in steps, at least 1; every series of the tenant has as many samples."""
    censored: Bool
    """bool (T,): the lifetime was cut by the trace window; the true one is longer."""
    max_usage: Float32
    """float32 (T, R): MaxUsage, what a replica may use at the most ([1] section 3.2), in the metrics' units."""
    series_tenant: Int32
    """int32 (S,): tenant of the series."""
    series_role: Int8
    """int8 (S,): `plb.model.Role`. A tenant with several replicas has a primary's series and a series
    that all its secondaries share; a tenant with a single replica has only the primary's.
    """
    series_start: Int
    """int64 (S + 1,): bounds of the series in `values`."""
    values: Float32
    """float32 (N, R): samples, contiguous, in the metrics' units."""
    family: Int = attrs.field()
    """int64 (T,): tenants of one family (for example the windows of one machine) are on one side of a split. By default
    each tenant is its own family.
    """
    start: Float | None = None
    """float64 (T,): when the tenants began, seconds since an origin that all have in common; None: not known."""
    series_index: Int32 = attrs.field(init=False, repr=False)
    """int32 (T, 3): series by tenant and `Role`, -1 where there is none. The demand of replicas in step k is
    ``values[series_start[series_index[tenant, role]] + k]``.
    """

    @family.default
    def _singleton_family(self) -> Int:
        """Return a different family for each tenant."""
        return np.arange(len(self.tenant), dtype=np.int64)

    def __attrs_post_init__(self) -> None:
        """Check the shapes, and find the series of each tenant and role, (T, roles), -1 where there is none."""
        self._check_shapes()
        index = np.full((len(self.tenant), len(Role)), -1, np.int32)
        index[self.series_tenant, self.series_role] = np.arange(len(self.series_tenant), dtype=np.int32)
        object.__setattr__(self, "series_index", index)

    def _check_shapes(self) -> None:
        """Raise an error unless the shapes of the arrays agree."""
        tenants, series, metrics = len(self.tenant), len(self.series_tenant), len(self.metrics)
        requested: dict[str, tuple[int, ...]] = dict.fromkeys(
            ("class_code", "replicas", "lifetime_steps", "censored", "family"), (tenants,)
        )
        requested |= {"max_usage": (tenants, metrics), "series_role": (series,), "series_start": (series + 1,)}
        requested |= {"values": (int(self.series_start[-1]), metrics)}
        if self.start is not None:
            requested["start"] = (tenants,)
        for field, shape in requested.items():
            actual = getattr(self, field).shape
            if actual != shape:
                raise InvalidValueError("trace set", field, actual, f"an array of shape {shape}")
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
        """Return the trace set of these tenants, by index or mask (T,), in order; repeated tenants need other names."""
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
"""The fields of a `TraceSet` with an entry for each tenant, apart from `start`."""


def concatenate(sets: Sequence[TraceSet]) -> TraceSet:
    """Return one trace set of parts with equal metrics, step and classes; starts are known if all parts have them."""
    first = sets[0]
    for part in sets[1:]:
        if (part.metrics, part.step_seconds, part.classes) != (first.metrics, first.step_seconds, first.classes):
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


def one_series_each(role: Role, *, class_names: Sequence[str], lifetime_steps: Int, **fields: Any) -> TraceSet:
    """Return tenants, (T,), of these classes with a series each; `fields` are further fields of `TraceSet`."""
    classes, codes = np.unique(class_names, return_inverse=True)
    return TraceSet(
        classes=tuple(classes.tolist()),
        class_code=codes.astype(np.int16),
        lifetime_steps=lifetime_steps.astype(np.int32),
        series_tenant=np.arange(len(codes), dtype=np.int32),
        series_role=np.full(len(codes), role, np.int8),
        series_start=bounds_of(lifetime_steps),
        **fields,
    )


SAMPLE_STREAM = 1
"""Key of the random stream of samples, which separates it from the stream of splits."""
MOST_COPIES = 1000
"""Largest size of a sample with replacement, as a multiple of the tenants."""


def split_tenants(traces: TraceSet, history_share: float, seed: int) -> tuple[TraceSet, TraceSet]:
    """Split families at random into two trace sets: the history, with a share of them, and the tenants to simulate."""
    check_number("split", "history_share", history_share, high=1.0)
    families = np.unique(traces.family)
    order = np.random.default_rng(check_count("split", "seed", seed)).permutation(len(families))
    past = families[order[: round(history_share * len(families))]]
    in_history = np.isin(traces.family, past)
    return traces.select(in_history), traces.select(~in_history)


def sample_families(traces: TraceSet, share: float, seed: int, *, replace: bool) -> TraceSet:
    """Return the tenants of a random share of the families, at least one, independent of a split with this seed.

    With replacement, a family that is drawn k times has k copies with the same demand at the same times; the second
    copy of tenant ``a`` is ``a#2``.
    """
    check_number("sample", "share", share, low_open=True, high=float("inf") if replace else 1.0)
    families, family = np.unique(traces.family, return_inverse=True)
    count = max(1, round(share * len(families)))
    drawn = _stream_of_samples(seed).choice(len(families), count, replace=replace)
    return _with_copies(traces, np.bincount(drawn, minlength=len(families))[family])


def sample_demand(traces: TraceSet, demand: Float, total: float, seed: int) -> TraceSet:
    """Return the tenants of families drawn with replacement, at least one, until their demand, (T,), reaches `total`.

    Copies are named as by `sample_families`. Raise `PlbError` if that takes more than a thousand times the tenants.
    """
    families, family = np.unique(traces.family, return_inverse=True)
    family_demand = np.bincount(family, demand, len(families))
    if family_demand.sum() * MOST_COPIES < total:
        message = f"the tenants demand {family_demand.sum():g} together, and {total:g} is more than {MOST_COPIES} times"
        raise PlbError(f"{message} as much")
    rng = _stream_of_samples(seed)
    drawn = rng.integers(len(families), size=len(families))
    while family_demand[drawn].sum() < total:
        drawn = np.concatenate([drawn, rng.integers(len(families), size=len(families))])
    last_draw = int(np.searchsorted(np.cumsum(family_demand[drawn]), total))
    return _with_copies(traces, np.bincount(drawn[: last_draw + 1], minlength=len(families))[family])


def _stream_of_samples(seed: int) -> np.random.Generator:
    """Return the random numbers of samples with a seed, after a check of it."""
    return np.random.default_rng([check_count("sample", "seed", seed), SAMPLE_STREAM])


def _with_copies(traces: TraceSet, copies: Int) -> TraceSet:
    """Return traces with `copies` copies of each tenant, (T,); the second copy of tenant ``a`` is ``a#2``."""
    source = np.repeat(np.arange(traces.tenants), copies)
    copy_number = np.arange(len(source)) - np.repeat(np.cumsum(copies) - copies, copies)
    if not copy_number.any():
        return traces.select(source)
    names = traces.tenant_names()[source].astype(np.object_)
    names[copy_number > 0] = [
        f"{name}#{1 + copy}" for name, copy in zip(names[copy_number > 0], copy_number[copy_number > 0], strict=True)
    ]
    doubled = set(names[copy_number > 0]) & set(names[copy_number == 0])
    if doubled:
        raise ConflictError(f"sample: tenant {min(doubled)} has the name of a copy of another tenant")
    return attrs.evolve(traces.select(source), tenant=np.array(names.tolist()))
