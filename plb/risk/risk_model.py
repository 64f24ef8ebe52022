"""What every risk model answers: how likely a violation is on a node that holds given replicas."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

import attrs
import numpy as np

from plb.errors import ConflictError, InvalidValueError
from plb.model import Role, check_role
from plb.validation import ReadOnlyMapping, check_collection, check_count, check_loads, check_mapping, check_number

LISTS = "a list of numbers for each metric"
"""What errors say that samples have to be."""


@attrs.frozen
class ReplicaForecast:
    """What is known of a replica when its future is estimated."""

    tenant_class: str | None
    """Class of similar tenants; None: unknown."""
    role: Role
    created: float
    """Time of creation in seconds on the host's clock: the start of its demand curve."""
    largest_demand: Mapping[str, float]
    """Largest demand seen so far by metric (LBMax of [1] section 5.1), in user units; missing ones are 0."""
    key: int
    """Stable 64-bit key of the replica (`plb.risk.replica_key`), which determines the traces sampled for it."""
    samples: Mapping[str, Sequence[float]] = attrs.field(factory=dict, kw_only=True)
    """Its demand so far by metric, in user units, the oldest first, equally many of each; the newest may suffice.
    Missing: not known. The newest samples of the replicas of a node count as simultaneous, the ones before as
    simultaneous, and so on.
    """
    seen: int | None = attrs.field(default=None, kw_only=True)
    """How often its demand was sampled; None: as often as there are samples."""
    limits: Mapping[str, float] = attrs.field(factory=dict, kw_only=True)
    """Its promised maximum by metric, in user units; missing: not known."""

    def __attrs_post_init__(self) -> None:
        item = f"replica of class {self.tenant_class}"
        if check_count(item, "key", self.key) >= 2**64:
            raise InvalidValueError(item, "key", self.key, "a whole number >= 0 and < 2^64")
        check_number(item, "created", self.created, low=-math.inf)
        object.__setattr__(self, "largest_demand", check_loads(item, "largest_demand", self.largest_demand))
        object.__setattr__(self, "role", check_role(item, "role", self.role))
        object.__setattr__(self, "samples", samples := _check_samples(item, self.samples))
        shown = max(map(len, samples.values()), default=0)
        seen = shown if self.seen is None else check_count(item, "seen", self.seen, low=shown)
        object.__setattr__(self, "seen", seen)
        object.__setattr__(self, "limits", check_loads(item, "limits", self.limits))


def _check_samples(item: str, samples: object) -> Mapping[str, tuple[float, ...]]:
    """Return the samples of a replica by metric, or refuse them; `item` names the replica in errors."""
    columns = check_mapping(item, "samples", samples, LISTS)
    checked = {metric: _check_column(item, f"samples[{metric}]", values) for metric, values in columns.items()}
    lengths = {len(values) for values in checked.values()}
    if len(lengths) > 1:
        counts = ", ".join(f"{len(values)} of {metric}" for metric, values in checked.items())
        raise ConflictError(f"{item}: samples has {counts}; expected equally many of each")
    return ReadOnlyMapping(checked)


def _check_column(item: str, field: str, values: object) -> tuple[float, ...]:
    """Return the samples of one metric, or refuse them; `item` and `field` name them in errors."""
    column = values if isinstance(values, np.ndarray) and values.dtype == np.float64 and values.ndim == 1 else None
    if column is not None and np.isfinite(column).all() and (column >= 0.0).all():  # many at a time
        return tuple(column.tolist())
    listed = check_collection(item, field, values, LISTS)
    return tuple(check_number(item, f"{field}[{index}]", value) for index, value in enumerate(listed))


@runtime_checkable
class RiskModel(Protocol):
    """Estimates the risk that a node is in violation at some time from now on."""

    def probability_of_violation(
        self, replicas: Sequence[ReplicaForecast], *, thresholds: Mapping[str, float], now: float
    ) -> float:
        """Return the probability, in [0, 1], that the summed demand of the replicas ever reaches a threshold.

        Parameters
        ----------
        replicas
            The present replicas of the node, or the replicas of a what-if.
        thresholds
            Demand at which a violation of the node begins, f·c, by metric in user units; a missing metric is unlimited.
        now
            Present time in seconds, on the same clock as the replicas' creation.
        """
