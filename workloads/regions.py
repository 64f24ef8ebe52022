"""Four synthetic regions and their tenants.

The regions replace the four regions of Azure SQL traces in [1], which are not public. They have the statistics that
section 3.1 of [1] publishes (see `workloads.region_statistics`), over the public Gen5 classes.

Tenants are numbered from 0 without end, and tenant i of a region and a seed is always the same, for any requested
range: the tenants of each block of `BLOCK` have their own stream. History and simulation are disjoint by
number: with H history tenants, the history uses tenants 0 to H-1 (`generate_history`) and the simulation tenants from H
on (``generate(..., first_tenant=H)``); record seed and H with the results.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

import attrs
import numpy as np

from plb.model import Role
from plb.risk.demand_history import DemandHistory
from plb.validation import check_count, check_number
from workloads.compression import compress_columns
from workloads.population import Layout, Population, demand_curves, draw_population
from workloads.region_parameters import CLASS_LIMITS, CLASS_REPLICAS, CLASSES, METRICS, RegionParameters, Usage
from workloads.trace import DAY_SECONDS, STEP_SECONDS, TraceSet, concatenate

BLOCK = 256
"""Tenants that share a random stream. It is part of the definition of a tenant: a change of it changes all tenants."""
CHUNK = 8 * BLOCK
"""Uncompressed tenants in memory while a history is generated."""
START_STREAM = 2
"""Key of the random stream of the starts of tenants, which separates it from others of the seed."""
MOST_DAYS = 1e6
"""Maximum of the days within which tenants begin."""

REGIONS: Mapping[str, RegionParameters] = MappingProxyType(
    {
        region.name: region
        for region in (
            RegionParameters(
                name="region1",
                local_share=0.25,
                serverless_share=0.20,
                size_bias=1.5,
                lifetime_median_hours=60.0,
                lifetime_sigma=1.3,
                growth_within=0.035,
                cpu=Usage(median=0.06, sigma=1.0),
                memory=Usage(median=0.40, sigma=1.0),
                disk_local=Usage(median=0.05, sigma=1.3),
                disk_tempdb=Usage(median=0.03, sigma=1.3),
            ),
            RegionParameters(
                name="region2",
                local_share=0.12,
                serverless_share=0.35,
                size_bias=1.9,
                lifetime_median_hours=40.0,
                lifetime_sigma=1.5,
                growth_within=0.03,
                cpu=Usage(median=0.04, sigma=1.2),
                memory=Usage(median=0.30, sigma=1.2),
                disk_local=Usage(median=0.04, sigma=1.5),
                disk_tempdb=Usage(median=0.02, sigma=1.5),
                serverless_reclaim_share=0.10,
            ),
            RegionParameters(
                name="region3",
                local_share=0.40,
                serverless_share=0.10,
                size_bias=1.2,
                lifetime_median_hours=96.0,
                lifetime_sigma=1.2,
                growth_within=0.05,
                cpu=Usage(median=0.08, sigma=0.9),
                memory=Usage(median=0.50, sigma=0.9),
                disk_local=Usage(median=0.07, sigma=1.2),
                disk_tempdb=Usage(median=0.04, sigma=1.2),
                serverless_reclaim_share=0.20,
            ),
            RegionParameters(
                name="region4",
                local_share=0.20,
                serverless_share=0.25,
                size_bias=1.4,
                lifetime_median_hours=72.0,
                lifetime_sigma=1.4,
                growth_within=0.04,
                cpu=Usage(median=0.05, sigma=1.1),
                memory=Usage(median=0.55, sigma=1.1),
                disk_local=Usage(median=0.05, sigma=1.6),
                disk_tempdb=Usage(median=0.02, sigma=1.6),
            ),
        )
    }
)
"""The regions, by name. Free values were chosen once; their digests are part of every study's results."""


def generate(parameters: RegionParameters, tenants: int, seed: int, first_tenant: int = 0) -> TraceSet:
    """Generate the traces of `tenants` tenants of a region from number `first_tenant` on, which are also their names.

    Metrics are cpu (vCores, no trend), memory (GB) and disk (GB) every 10 minutes. The seed, the name of the region and
    its number fix a tenant.
    """
    check_count("generate", "tenants", tenants, low=1)
    check_count("generate", "first_tenant", first_tenant)
    check_count("generate", "seed", seed)
    last = first_tenant + tenants
    blocks = [
        _part(_block(parameters, seed, block), first_tenant, last)
        for block in range(first_tenant // BLOCK, (last - 1) // BLOCK + 1)
    ]
    return blocks[0] if len(blocks) == 1 else concatenate(blocks)


def generate_chunks(
    parameters: RegionParameters, tenants: int, seed: int, first_tenant: int = 0, chunk: int = CHUNK
) -> Iterator[TraceSet]:
    """Generate the same tenants as `generate`, at most `chunk` of them at a time, so that memory stays small."""
    check_count("generate", "tenants", tenants, low=1)
    check_count("generate", "chunk", chunk, low=1)
    start, last = first_tenant, first_tenant + tenants
    while start < last:
        end = min((start // chunk + 1) * chunk, last)  # ends at multiples, so that no block is generated twice
        yield generate(parameters, end - start, seed, start)
        start = end


def generate_history(parameters: RegionParameters, tenants: int, seed: int, first_tenant: int = 0) -> DemandHistory:
    """Generate tenants as `generate` does and compress them block by block, never holding all their samples.

    Each tenant gives one trace a role. After a history of H tenants, simulate tenants from number H on.
    """
    parts = [compress_columns(part) for part in generate_chunks(parameters, tenants, seed, first_tenant, BLOCK)]
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return DemandHistory.from_columns([metric.name for metric in METRICS], **columns)


def _part(block: TraceSet, first: int, last: int) -> TraceSet:
    """Return the tenants of a block with numbers from `first` to `last` - 1."""
    inside = (block.family >= first) & (block.family < last)
    return block if inside.all() else block.select(inside)


def _block(parameters: RegionParameters, seed: int, block: int) -> TraceSet:
    """Return all tenants of a block, by its number."""
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(parameters.stream, block)))
    tenants = draw_population(parameters, BLOCK, rng)
    layout = _layout(tenants)
    tenant = np.arange(block * BLOCK, (block + 1) * BLOCK, dtype=np.int64)
    return TraceSet(
        metrics=METRICS,
        step_seconds=STEP_SECONDS,
        classes=tuple(tenant_class.name for tenant_class in CLASSES),
        tenant=tenant,
        family=tenant,
        class_code=tenants.class_code,
        replicas=CLASS_REPLICAS[tenants.class_code],
        lifetime_steps=tenants.lifetime,
        censored=tenants.censored,
        max_usage=CLASS_LIMITS[tenants.class_code],
        series_tenant=layout.owner.astype(np.int32),
        series_role=np.where(layout.secondary, Role.SECONDARY, Role.PRIMARY).astype(np.int8),
        series_start=layout.bounds,
        values=demand_curves(parameters, tenants, layout, rng),
    )


def _layout(tenants: Population) -> Layout:
    """Return the series of tenants: for each, a series of the primary, then one of the secondaries if it has any."""
    series = 1 + (CLASS_REPLICAS[tenants.class_code] > 1)
    owner = np.repeat(np.arange(len(series)), series)
    secondary = np.diff(owner, prepend=-1) == 0
    return Layout(owner, secondary, tenants.lifetime)


def with_random_starts(traces: TraceSet, days: float, seed: int) -> TraceSet:
    """Return traces whose tenants start at random times within `days` days, each at the beginning of a step."""
    check_number("traces", "days", days, low_open=True, high=MOST_DAYS)
    steps = max(1, int(days * DAY_SECONDS // traces.step_seconds))
    rng = np.random.default_rng([check_count("traces", "seed", seed), START_STREAM])
    return attrs.evolve(traces, start=np.float64(traces.step_seconds) * rng.integers(steps, size=traces.tenants))
