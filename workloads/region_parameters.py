"""Parameters of a synthetic region, published or free.

Every field has its source: a section of [1], or "free" for our choice. Free parameters were chosen once, by the
statistics of section 3.1 alone, not by numbers of violations. `RegionParameters.digest` identifies them.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from statistics import NormalDist
from typing import Any

import attrs
import numpy as np

from plb.array_types import Float32, Int8
from plb.errors import PlbError
from plb.validation import check_kind, check_known, check_mapping, check_name, check_number
from workloads.trace import MetricInfo

PUBLISHED_SHARE = 0.90
"""Share of tenants that reach 95 % of their maximum early ([1] section 3.1: "over 90 %")."""
LARGEST_SIGMA = 5.0
"""Largest standard deviation of a logarithm; with it, usual values differ by a factor of 150 and more."""
LARGEST_BIAS = 20.0
"""Largest bias of sizes; beyond it, all tenants have the smallest size."""
HIGHEST = 1e4
"""Largest time, in hours or days."""
USAGES = ("cpu", "memory", "disk_local", "disk_tempdb")
"""Parameters that are a `Usage`."""
AIMED_SHARE = 0.915
"""Share of such tenants at which the generator aims, so that 10,000 random tenants show over 90 % (standard
error 0.3 %).
"""


@attrs.frozen(kw_only=True)
class Usage:
    """How much of its class's limit a tenant uses: 1/(1 + exp(-x)) with x normal, hence skewed with a heavy tail."""

    median: float
    """Median share of the limit, in (0, 1). Free."""
    sigma: float
    """Standard deviation of x. Free."""

    def __attrs_post_init__(self) -> None:
        median = check_number("usage", "median", self.median, high=1.0, low_open=True, high_open=True)
        object.__setattr__(self, "median", median)
        object.__setattr__(self, "sigma", check_number("usage", "sigma", self.sigma, high=LARGEST_SIGMA))


@attrs.frozen(kw_only=True)
class RegionParameters:
    """All parameters of a synthetic region."""

    name: str
    """Name; it also picks the region's random stream, so that a variant with the same name has the same tenants."""
    local_share: float
    """Share of tenants with local storage (Business Critical). Free; "regions differ significantly" ([1] 8.1)."""
    serverless_share: float
    """Share of serverless tenants among the tenants with remote storage. Free."""
    size_bias: float
    """s in P(v vCores) proportional to v^-s. Free."""
    lifetime_median_hours: float
    """Median of the lognormal lifetime. Free; hours to weeks."""
    lifetime_sigma: float
    """Standard deviation of the logarithm of the lifetime. Free."""
    growth_within: float
    """Share of its lifetime within which a tenant reaches 95 % of its maximum memory with probability over 90 %; [1]
    3.1: 2 %-5 %, depending on the region.
    """
    cpu: Usage
    """Usage of CPU. Free."""
    memory: Usage
    """Usage of memory. Free."""
    disk_local: Usage
    """Usage of disk of tenants with local storage. Free."""
    disk_tempdb: Usage
    """Usage of disk, for tempdb alone, of tenants with remote storage. Free."""
    window_days: float = 30.0
    """Length of the trace window; longer lifetimes are cut there and marked as censored. Free."""
    disk_growth_ratio: float = 0.5
    """As `growth_within`, for disk, by `growth_within`; below 1 because "tenants often reach 95 % of their peak memory
    demand at a much later time" ([1] 5.3). Size free.
    """
    growth_sigma: float = 1.2
    """Spread of the growth share (lognormal). Free."""
    disk_grower_share: float = 0.05
    """Share of tenants whose disk grows throughout their lifetime; as `memory_grower_share`."""
    memory_grower_share: float = 0.02
    """Share of tenants whose memory grows throughout their lifetime: "a smaller fraction" ([1] 3.1), so well below 10
    %. Size free.
    """
    initial_low: float = 0.02
    """Least initial demand as a share of the maximum (uniform). Free."""
    initial_high: float = 0.6
    """Largest initial demand as a share of the maximum. Free."""
    creep: float = 0.02
    """Largest growth after the growth phase, as a share of the maximum: "only small increases" ([1] 3.1). Size free."""
    disk_noise: float = 0.02
    """Largest dip of disk in ordinary fluctuation, as a share of the level; small ([1] 3.1, temporary workspaces). Size
    free.
    """
    memory_noise: float = 0.06
    """Largest dip of memory in ordinary fluctuation, as a share of the level. Size free."""
    disk_drop_share: float = 0.006
    """Share of tenants whose disk demand decreases permanently; [1] 3.1: under 1 % drop below 90 %."""
    memory_drop_share: float = 0.01
    """Share of the tenants that are not serverless whose memory is reclaimed at times. Free."""
    serverless_reclaim_share: float = 0.12
    """Share of serverless tenants whose memory is reclaimed at times; [1] 3.1: under 7 % of all tenants drop below
    80 %, serverless tenants more often than others. Division free.
    """
    size_correlation: float = 0.6
    """Correlation of a tenant's usages of the three metrics with its common size. Free."""
    lifetime_correlation: float = 0.3
    """Correlation of that size with the (log) lifetime: "longer-lived tenants are more likely to have higher resource
    demands" ([1] 5.1). Size free.
    """
    cpu_regime_hours: float = 1.5
    """Mean time between jumps of the CPU level: it "changes rapidly and often unpredictably" ([1] 5.3). Size free."""
    cpu_regime_sigma: float = 0.7
    """Standard deviation of log CPU between its levels. Free."""
    cpu_white_sigma: float = 0.4
    """Standard deviation of log CPU from sample to sample. Free."""
    cpu_daily: float = 0.3
    """Largest amplitude of the daily cycle, as a share of the level. Free."""
    secondary_cpu_low: float = 0.1
    """Least CPU of a secondary as a share of the primary's (uniform). Free."""
    secondary_cpu_high: float = 0.6
    """Largest CPU of a secondary as a share of the primary's. Free."""
    secondary_memory_low: float = 0.6
    """Least memory of a secondary as a share of the primary's (uniform); disk is the same. Free."""
    secondary_memory_high: float = 1.0
    """Largest memory of a secondary as a share of the primary's. Free."""

    def __attrs_post_init__(self) -> None:
        check_name("region", self.name)
        for name in attrs.fields_dict(type(self)):
            if name in USAGES:
                check_kind(f"region {self.name}", name, getattr(self, name), Usage)
            elif name != "name":
                object.__setattr__(self, name, self._checked_number(name, getattr(self, name)))
        for kind in ("initial", "secondary_cpu", "secondary_memory"):
            high = getattr(self, f"{kind}_high")
            check_number(f"region {self.name}", f"{kind}_low", getattr(self, f"{kind}_low"), high=high)

    def digest(self) -> str:
        """Return the SHA-256 of the parameters as canonical JSON, in hex; code is not part of it."""
        text = json.dumps(attrs.asdict(self), sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()

    def changed(self, changes: Mapping[str, Any]) -> RegionParameters:
        """Return the region with other values of some parameters; of a usage a mapping, such as ``{"median": 0.1}``."""
        values: dict[str, Any] = {name: self._changed_to(name, value) for name, value in changes.items()}
        return attrs.evolve(self, **values)

    def refused(self, changes: Mapping[str, Any]) -> Iterator[PlbError]:
        """Yield the reasons why `changed` raises an error for each change or, if each is valid, for all together."""
        each_is_fine = True
        for name, value in changes.items():
            single = [{part: number} for part, number in value.items()] if isinstance(value, Mapping) else [value]
            for change in single:
                try:
                    self._changed_to(name, change)
                except PlbError as error:
                    each_is_fine = False
                    yield error
        if each_is_fine:
            try:
                self.changed(changes)
            except PlbError as error:
                yield error

    def _changed_to(self, name: str, value: object) -> float | Usage:
        """Return a new value of a parameter, by its name, after checks; of a usage, `value` has the changed parts."""
        _check_known(f"parameter of region {self.name}", name, RegionParameters)
        if name not in USAGES:
            return self._checked_number(name, value)
        changes = check_mapping(f"region {self.name}", name, value, "a table, such as {median = 0.1}")
        parts = {}
        for part, number in changes.items():
            _check_known(f"parameter of {name} of region {self.name}", part, Usage)
            item, field, open_ends = f"region {self.name}", f"{name}.{part}", part == "median"
            parts[part] = check_number(
                item, field, number, high=highest(field), low_open=open_ends, high_open=open_ends
            )
        present: Usage = getattr(self, name)
        return attrs.evolve(present, **parts)

    def _checked_number(self, name: str, value: Any) -> float:
        """Return the value of a parameter, by its name, that is a number, after a check of its range."""
        return check_number(f"region {self.name}", name, value, low=lowest(name), high=highest(name))

    @property
    def stream(self) -> int:
        """Key of the region's random stream, from its name."""
        return int.from_bytes(hashlib.sha256(self.name.encode()).digest()[:4], "big")

    def growth_median(self, within: float, grower_share: float) -> float:
        """Return the median share of the lifetime that growth takes, of tenants that do not grow throughout it.

        With it, `AIMED_SHARE` of all tenants are grown within the share `within` of their lifetime; a share
        `grower_share` grows throughout it.
        """
        late = (1.0 - AIMED_SHARE - grower_share) / (1.0 - grower_share)
        # within is the quantile at 1 - late of a lognormal distribution
        return within / math.exp(self.growth_sigma * NormalDist().inv_cdf(1.0 - late))


def lowest(name: str) -> float:
    """Return the smallest value that a parameter may have."""
    return _LOWEST.get(name, 0.0)


def highest(name: str) -> float:
    """Return the largest value that a parameter may have; the median of a usage, ``cpu.median``, stays below it."""
    if name.endswith("sigma"):
        return LARGEST_SIGMA
    return 1.0 if name.endswith(".median") else _HIGHEST.get(name, HIGHEST)


def _check_known(kind: str, name: str, owner: type) -> None:
    """Raise `UnknownNameError`, for a name of a `kind`, if the attrs class `owner` has no such field except "name"."""
    names = [field for field in attrs.fields_dict(owner) if field != "name"]
    check_known(kind, name, names)


_HIGHEST = {
    field: 1.0
    for field in attrs.fields_dict(RegionParameters)
    if field.endswith(("_share", "_low", "_high", "_correlation", "_noise", "_ratio", "creep", "_within", "_daily"))
} | {"disk_grower_share": 0.08, "memory_grower_share": 0.08, "size_bias": LARGEST_BIAS}
"""Upper bounds of the fields. More than 8 % of tenants that grow throughout contradict the published 90 %."""
_LOWEST = {"window_days": 0.1, "lifetime_median_hours": 0.1, "cpu_regime_hours": 0.1}
"""Lower bounds of parameters that may not be 0."""


METRICS = (MetricInfo("cpu", "vCores", trend=False), MetricInfo("memory", "GB"), MetricInfo("disk", "GB"))
"""The three resources of [1] section 8.1, in the order of the columns."""

VCORES = (2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 24, 32, 40, 80)
"""Gen5 compute sizes, vCores."""
LARGEST_SERVERLESS = 40
"""Largest serverless Gen5 size in the tables of 2020-2022, vCores."""
MEMORY_PER_VCORE = 5.1
"""Provisioned compute, GB a vCore ([1] section 8.1; Gen5 tables)."""
SERVERLESS_MEMORY_PER_VCORE = 3.0
"""Serverless compute, GB a vCore at the most (Gen5 serverless tables: 2 vCores 6 GB, 8 vCores 24 GB)."""
TEMPDB_PER_VCORE = 32.0
"""Largest tempdb data size, GB a vCore (Gen5 tables); the only local disk of a database with remote storage."""
LOCAL_DATA = {2: 1024, 4: 1024, 6: 1536, 8: 1536, 10: 1536, 12: 3072, 14: 3072, 16: 3072, 18: 3072, 20: 3072}
"""Business Critical: largest data size on local SSD by vCores up to 20, GB (Gen5 tables)."""
LARGEST_LOCAL_DATA = 4096
"""Largest data size on local SSD above 20 vCores, GB."""
LOCAL_REPLICAS = 4
"""Replicas of a Business Critical database (Gen5 tables, "number of replicas": 4)."""


@attrs.frozen
class TenantClass:
    """One tenant class."""

    vcores: int
    """Maximum vCores."""
    local: bool
    """True: data on local SSD (Business Critical). False: remote storage, local disk for tempdb only (General Purpose).
    """
    serverless: bool
    """True: billed by use; memory is reclaimed when the database idles."""

    @property
    def name(self) -> str:
        """Name in Azure's convention, such as ``BC_Gen5_8``, ``GP_Gen5_2`` or ``GP_S_Gen5_4``."""
        return f"{'BC' if self.local else 'GP_S' if self.serverless else 'GP'}_Gen5_{self.vcores}"

    @property
    def replicas(self) -> int:
        """Number of replicas."""
        return LOCAL_REPLICAS if self.local else 1

    @property
    def limits(self) -> tuple[float, float, float]:
        """What one replica may use: vCores, GB of memory, GB of local disk."""
        memory = SERVERLESS_MEMORY_PER_VCORE if self.serverless else MEMORY_PER_VCORE
        disk = LOCAL_DATA.get(self.vcores, LARGEST_LOCAL_DATA) if self.local else TEMPDB_PER_VCORE * self.vcores
        return float(self.vcores), memory * self.vcores, float(disk)


LOCAL = tuple(TenantClass(vcores, local=True, serverless=False) for vcores in VCORES)
REMOTE = tuple(TenantClass(vcores, local=False, serverless=False) for vcores in VCORES)
SERVERLESS = tuple(
    TenantClass(vcores, local=False, serverless=True) for vcores in VCORES if vcores <= LARGEST_SERVERLESS
)
CLASSES = LOCAL + REMOTE + SERVERLESS
"""All classes; a class code of a synthetic trace set is an index of it."""
CLASS_LIMITS: Float32 = np.array([tenant_class.limits for tenant_class in CLASSES], np.float32)
"""The limits of all classes, shape (C, 3): vCores, GB, GB."""
CLASS_REPLICAS: Int8 = np.array([tenant_class.replicas for tenant_class in CLASSES], np.int8)
"""The replicas of all classes, shape (C,)."""
CLASS_LIMITS.flags.writeable = CLASS_REPLICAS.flags.writeable = False
