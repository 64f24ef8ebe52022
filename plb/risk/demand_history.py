"""Demand history: past tenants as compact demand models ([1] section 5.3), and the mean course of their demand.

Arrays have one row for each trace. T traces, R metrics, C tenant classes. Of the mean course: G groups of tenant class
and role, A ages in equal steps, n replicas, H future steps.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

import attrs
import numpy as np
import numpy.typing as npt

from plb.array_types import Array, Float, Int, made_again
from plb.errors import ConflictError, InvalidValueError
from plb.model import Role
from plb.validation import check_collection, check_name, check_quantum

LARGEST_LEVEL = 2**30
"""A level may be at most this many quanta, so that sums over a node stay far below 2^63."""
LARGEST_FLOAT32 = float(np.finfo(np.float32).max)
RECORD_SECONDS = 86_400.0
"""Seconds after which the largest demand of a metric without trend has shown itself: a day."""
MOST_CLASSES = 2**15 - 1
NAMES = "a collection of names"
"""What errors say that metrics and classes have to be."""


@attrs.frozen(eq=False)
class DemandHistory:
    """Past tenants as demand models ([1] section 5.3). Make one with `from_columns`.

    Rows are sorted by (tenant class, role) and keep their given order within such a group, so every set
    of eligible traces is within a slice of rows. All arrays are read-only and C-contiguous.
    """

    metrics: tuple[str, ...]
    """Names of the R metrics."""
    classes: tuple[str, ...]
    """Names of the tenant classes, sorted; a class's code is its position."""
    tenant_class: npt.NDArray[np.int16]
    """Class code, shape (T,), int16."""
    role: npt.NDArray[np.int8]
    """Value of `plb.model.Role`, shape (T,), int8."""
    lifetime: npt.NDArray[np.float32]
    """Lifetime L in seconds, shape (T,), float32."""
    censored: npt.NDArray[np.bool_]
    """Whether the end of the trace window cut the lifetime, shape (T,), bool."""
    level: npt.NDArray[np.float32]
    """M of a metric with trend, the 90th percentile U90 of one without; user units, shape (T, R), float32."""
    initial: npt.NDArray[np.float32]
    """Demand I at the start; user units, shape (T, R), float32. Equals `level` for a metric without trend."""
    growth: npt.NDArray[np.float32]
    """Duration G of growth in seconds, shape (T, R), float32; 0: at `level` at once."""
    maximum: npt.NDArray[np.float32]
    """True maximum of the trace, for eligibility; user units, shape (T, R), float32."""
    group_start: npt.NDArray[np.int64] = attrs.field(init=False)
    """Derived: the rows of class c and role r are ``group_start[3c + r] : group_start[3c + r + 1]``."""

    def __attrs_post_init__(self) -> None:
        group = self.tenant_class.astype(np.int64) * len(Role) + self.role
        if np.any(np.diff(group) < 0):
            raise ConflictError("demand history: rows are not sorted by (tenant_class, role); use from_columns")
        starts = np.searchsorted(group, np.arange(len(self.classes) * len(Role) + 1)).astype(np.int64)
        object.__setattr__(self, "group_start", starts)
        for array in (*self._columns, starts):
            array.flags.writeable = False

    __reduce__ = made_again

    @classmethod
    def from_columns(
        cls,
        metrics: Sequence[str],
        *,
        tenant_class: Sequence[str] | Array,
        role: Sequence[int] | Array,
        lifetime: Sequence[float] | Array,
        level: Sequence[Sequence[float]] | Array,
        initial: Sequence[Sequence[float]] | Array,
        growth: Sequence[Sequence[float]] | Array,
        maximum: Sequence[Sequence[float]] | Array,
        censored: Sequence[bool] | Array | None = None,
    ) -> DemandHistory:
        """Return the history of traces in any order; columns as in the class, (T,) or (T, R), `tenant_class` by name.

        Raises
        ------
        InvalidValueError
            A value is outside its range; the message has the row in the given order.
        ConflictError
            Columns differ in length, a metric is named twice, or there is no trace.
        """
        names = _metric_names(metrics)
        classes, codes = _class_codes(tenant_class)
        traces, shape = len(codes), (len(codes), len(names))
        matrices = {
            field: _numbers(field, values, shape, names)
            for field, values in {"level": level, "initial": initial, "growth": growth, "maximum": maximum}.items()
        }
        refused = np.argwhere(matrices["initial"] > matrices["level"])
        if len(refused):
            row, metric = (int(i) for i in refused[0])
            allowed = f"at most the trace's level, {float(matrices['level'][row, metric]):g}"
            refused_initial = float(matrices["initial"][row, metric])
            raise InvalidValueError(f"trace {row}", f"initial[{names[metric]}]", refused_initial, allowed)
        roles = _roles(role, traces)
        lifetimes = _numbers("lifetime", lifetime, (traces,), ())
        flags = np.zeros(traces, np.bool_) if censored is None else _flags(censored, traces)
        order = np.lexsort((roles, codes))
        return cls(
            names,
            classes,
            codes[order].astype(np.int16),
            roles[order].astype(np.int8),
            lifetimes[order],
            flags[order],
            **{field: np.ascontiguousarray(matrix[order]) for field, matrix in matrices.items()},
        )

    def __len__(self) -> int:
        return len(self.tenant_class)

    @property
    def _columns(self) -> tuple[Array, ...]:
        """All arrays with a row for each trace."""
        by_trace = (self.tenant_class, self.role, self.lifetime, self.censored)
        return (*by_trace, self.level, self.initial, self.growth, self.maximum)

    @property
    def digest(self) -> str:
        """SHA-256 of all names and arrays in hexadecimal digits: equal for histories with the same content."""
        names = json.dumps([self.metrics, self.classes])
        hashed = hashlib.sha256(f"{names} {len(self)}\n".encode())
        for column in self._columns:
            hashed.update(column.tobytes())
        return hashed.hexdigest()

    def class_code(self, name: str | None) -> int:
        """Return the code of a tenant class, or -1 for an unknown name."""
        try:
            return self.classes.index(name) if name is not None else -1
        except ValueError:
            return -1

    def demand(self, age: npt.ArrayLike, trace: npt.ArrayLike) -> Float:
        """Return the modelled demand of traces at ages.

        The curve rises in a straight line from I to M while age < G and is M from then on. Equation (2) of [1] as
        printed, ``I + age/G·M``, ends growth at I + M and so overshoots M unless I is 0; ``I + age/G·(M − I)`` is the
        curve that its figures 5 and 6 show.

        Parameters
        ----------
        age
            Seconds since the start; broadcasts against `trace`. Ages below 0 count as 0.
        trace
            Rows of the history.

        Returns
        -------
        Array of the broadcast shape followed by R, in user units.
        """
        rows = np.asarray(trace)
        initial, level, growth = (a[rows].astype(np.float64) for a in (self.initial, self.level, self.growth))
        elapsed = np.maximum(np.asarray(age, np.float64), 0.0)[..., np.newaxis]
        share = np.divide(elapsed, growth, out=np.ones(np.broadcast(elapsed, growth).shape), where=elapsed < growth)
        demand: Float = np.where(share < 1, np.minimum(initial + (level - initial) * share, level), level)
        return demand

    def in_quanta(self, quanta: npt.ArrayLike) -> npt.NDArray[np.int32]:
        """Return `level` in whole quanta, (T, R), rounded up; `quanta` (R,) are powers of two in user units.

        Raise `InvalidValueError` for another quantum, or a level of more than 2^30 quanta.
        """
        sizes = self._checked_quanta(np.asarray(quanta, np.float64))
        whole = np.ceil(self.level.astype(np.float64) / sizes)
        if whole.max(initial=0) > LARGEST_LEVEL:
            row, metric = np.unravel_index(int(whole.argmax()), whole.shape)
            name, quantum = self.metrics[metric], float(sizes[metric])
            most = LARGEST_LEVEL * quantum
            allowed = f"at most {most:g} (2^30 quanta of {quantum:g}); give metric {name} a coarser quantum"
            raise InvalidValueError(f"trace {row}", f"level[{name}]", float(self.level[row, metric]), allowed)
        return whole.astype(np.int32)

    def maxima_in_quanta(self, quanta: npt.ArrayLike) -> npt.NDArray[np.int32]:
        """Return `maximum` in whole quanta, as `in_quanta` returns `level`; larger maxima count as 2^30."""
        sizes = self._checked_quanta(np.asarray(quanta, np.float64))
        return np.minimum(np.ceil(self.maximum.astype(np.float64) / sizes), LARGEST_LEVEL).astype(np.int32)

    def _checked_quanta(self, quanta: Float) -> Float:
        """Return `quanta` if they are one allowed quantum for each metric, (R,), else raise an error."""
        if quanta.shape != (len(self.metrics),):
            raise ConflictError(f"quanta: shape {quanta.shape}, expected one quantum for each of {self.metrics}")
        for name, quantum in zip(self.metrics, quanta.tolist(), strict=True):
            check_quantum(f"metric {name}", "quantum", quantum)
        return quanta


def _metric_names(metrics: Sequence[str]) -> tuple[str, ...]:
    """Return the names of at least one metric, each once, or raise an error."""
    names = tuple(check_name("metric", name) for name in check_collection("demand history", "metrics", metrics, NAMES))
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise ConflictError(f"demand history: metric {doubled[0]} is named twice")
    if not names:
        raise ConflictError("demand history: no metric; at least one is needed")
    return names


def _class_codes(tenant_class: Sequence[str] | Array) -> tuple[tuple[str, ...], npt.NDArray[np.int64]]:
    """Return the sorted names of the classes, and the code of each trace's class, (T,); `tenant_class`: its name."""
    names = check_collection("demand history", "tenant_class", tenant_class, NAMES)
    if not names:
        raise ConflictError("demand history: no trace; at least one is needed")
    for row, name in enumerate(names):
        check_name(f"trace {row}", name, field="tenant_class")
    classes = tuple(sorted({str(name) for name in names}))
    if len(classes) > MOST_CLASSES:
        raise InvalidValueError("demand history", "number of tenant classes", len(classes), f"at most {MOST_CLASSES}")
    code = {name: i for i, name in enumerate(classes)}
    return classes, np.array([code[name] for name in names], np.int64)


def _shaped(field: str, values: object, shape: tuple[int, ...], dtype: npt.DTypeLike) -> Array:
    """Return the values of a field as an array of this shape and type, or raise `ConflictError`."""
    try:
        array = np.asarray(values, dtype)
    except (TypeError, ValueError) as error:
        raise ConflictError(f"demand history: {field} is no array of shape {shape}: {error}") from None
    if array.shape != shape:
        raise ConflictError(f"demand history: {field} has shape {array.shape}, expected {shape}")
    return array


def _numbers(field: str, values: object, shape: tuple[int, ...], metrics: tuple[str, ...]) -> npt.NDArray[np.float32]:
    """Return a field of a history, of this shape, as float32 if all values are finite and at least 0.

    `metrics`: names of the columns of a matrix, for errors; empty for a field with one value a trace.
    """
    array = _shaped(field, values, shape, np.float64)
    refused = ~((array >= 0) & (array <= LARGEST_FLOAT32))
    if refused.any():
        index = tuple(int(i) for i in np.argwhere(refused)[0])
        name = f"{field}[{metrics[index[1]]}]" if metrics else field
        allowed = f"a finite number >= 0 and <= {LARGEST_FLOAT32:.3g}"
        raise InvalidValueError(f"trace {index[0]}", name, float(array[index]), allowed)
    return array.astype(np.float32)


def _roles(role: object, traces: int) -> npt.NDArray[np.int64]:
    """Return the values of `Role` of a number of traces, (T,), or raise an error."""
    roles = _shaped("role", role, (traces,), np.float64)
    refused = np.flatnonzero(~np.isin(roles, [member.value for member in Role]))
    if len(refused):
        allowed = "one of " + ", ".join(f"{member.value} ({member.name.lower()})" for member in Role)
        raise InvalidValueError(f"trace {refused[0]}", "role", float(roles[refused[0]]), allowed)
    return roles.astype(np.int64)


def _flags(censored: object, traces: int) -> npt.NDArray[np.bool_]:
    """Return `censored` as truth values, (T,), one for each of a number of traces, or raise an error."""
    flags = _shaped("censored", censored, (traces,), np.float64)
    refused = np.flatnonzero((flags != 0) & (flags != 1))
    if len(refused):
        raise InvalidValueError(f"trace {refused[0]}", "censored", float(flags[refused[0]]), "true or false")
    return flags.astype(np.bool_)


MOST_AGES = 1024
"""Number of steps after which replicas are expected to stay as they are."""


class ExpectedDemand:
    """The mean course of demand by class and role, in steps of some seconds, and how many tenants live how long."""

    def __init__(self, history: DemandHistory, step_seconds: float) -> None:
        self.history, self.step_seconds = history, step_seconds
        longest = np.ceil(float(history.lifetime.max()) / step_seconds)
        self._ages = np.arange(int(np.clip(longest, 1, MOST_AGES)) + 1) * step_seconds
        """(A,) seconds."""
        groups = len(history.group_start) - 1
        self._mean = np.zeros((groups + 1, len(self._ages), len(history.metrics)))
        """(G + 1, A, R) user units: mean demand of the tenants of a group that reach an age; of the last group, 0."""
        self._alive = np.ones((groups + 1, len(self._ages)))
        """(G + 1, A) share of the tenants of a group that reach an age."""
        for group in range(groups):
            self._learn(group)

    def _learn(self, group: int) -> None:
        """Fill in the course of one group; ages that nobody reached have the last mean that there is."""
        first, last = self.history.group_start[group : group + 2]
        if first == last:
            return
        traces = np.arange(first, last)
        order = np.argsort(-self.history.lifetime[traces], kind="stable")
        traces = traces[order]
        lifetime = self.history.lifetime[traces].astype(np.float64)
        reached = np.searchsorted(-lifetime, -self._ages, side="left")
        reached[0] = len(traces)
        for step, age in enumerate(self._ages):
            if not reached[step]:
                self._mean[group, step:] = self._mean[group, step - 1]
                break
            self._mean[group, step] = self.history.demand(age, traces[: reached[step]]).mean(axis=0)
        self._alive[group] = reached / len(traces)

    def group_of(self, tenant_class: str | None, role: Role) -> int:
        """Return the group of `tenant_class` and `role`; for a class not in the history the last, without tenants."""
        code = self.history.class_code(tenant_class)
        return len(self._mean) - 1 if code < 0 else code * len(Role) + int(role)

    def expected_demand(self, group: Int, age: Float, load: Float, horizon: int) -> Float:
        """Return the expected demand of n replicas at the present step and the following ones, (n, H, R) user units.

        It is the present `load`, (n, R), plus the growth of the mean demand of the `group`, (n,), times the share of
        the tenants of this `age`, (n,) seconds, that still live then. At an age that no tenant reached, and in a group
        without tenants, the present load is expected. `horizon`: H.
        """
        last = len(self._ages) - 1
        present = np.clip(age / self.step_seconds, 0, last).astype(np.int64)
        upcoming = np.minimum(present[:, np.newaxis] + np.arange(horizon), last)
        growth = self._mean[group[:, np.newaxis], upcoming] - self._mean[group, present][:, np.newaxis]
        alive = self._alive[group, present]
        survival = np.divide(
            self._alive[group[:, np.newaxis], upcoming],
            alive[:, np.newaxis],
            out=np.ones(upcoming.shape),
            where=alive[:, np.newaxis] > 0,
        )
        return np.asarray(np.maximum(0.0, load[:, np.newaxis] + growth) * survival[:, :, np.newaxis], np.float64)
