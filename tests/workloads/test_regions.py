"""Synthetic regions: reproducibility, limits of tenants, and the published statistics."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plb.errors import InvalidValueError, UnknownNameError
from plb.model import Role
from tests.workloads.trace_strategies import assert_same
from workloads.compression import compress
from workloads.region_parameters import CLASSES, LOCAL, METRICS, RegionParameters, Usage, highest, lowest
from workloads.region_statistics import check_region, rank_correlation
from workloads.regions import BLOCK, REGIONS, generate, generate_chunks, generate_history
from workloads.trace import TraceSet, concatenate

REGION = REGIONS["region2"]


@pytest.fixture(scope="module")
def some() -> TraceSet:
    return generate(REGION, 3 * BLOCK, 11)


@settings(deadline=None, max_examples=20)
@given(first=st.integers(0, 3 * BLOCK - 1), count=st.integers(1, 2 * BLOCK))
def test_a_tenant_does_not_depend_on_the_requested_range(some: TraceSet, first: int, count: int) -> None:
    count = min(count, 3 * BLOCK - first)
    assert_same(generate(REGION, count, 11, first), some.select(np.arange(first, first + count)))


def test_chunks_give_the_whole_region_and_history(some: TraceSet) -> None:
    assert_same(concatenate(list(generate_chunks(REGION, some.tenants, 11, chunk=101))), some)
    history, whole = generate_history(REGION, some.tenants, 11), compress(some)
    for name in ("tenant_class", "role", "lifetime", "censored", "level", "initial", "growth", "maximum"):
        np.testing.assert_array_equal(getattr(history, name), getattr(whole, name), err_msg=name)


def test_history_and_simulation_are_disjoint() -> None:
    """With H history tenants, the simulation uses tenants from H on. The two parts share no number and no trace."""
    past, later = generate(REGION, 300, 11), generate(REGION, 300, 11, first_tenant=300)
    assert not set(past.tenant_names()) & set(later.tenant_names())
    peaks = [set(compress(part).level[:, 2].tolist()) for part in (past, later)]
    assert not peaks[0] & peaks[1]


def test_seeds_and_regions_give_other_tenants(some: TraceSet) -> None:
    assert not np.array_equal(generate(REGION, 50, 12).lifetime_steps, some.lifetime_steps[:50])
    renamed = attrs.evolve(REGION, name="elsewhere")
    assert not np.array_equal(generate(renamed, 50, 11).lifetime_steps, some.lifetime_steps[:50])


@pytest.mark.parametrize("name", REGIONS)
def test_traces_respect_their_limits(name: str) -> None:
    traces = generate(REGIONS[name], 1000, 2)
    assert traces.metrics == METRICS
    assert traces.values.dtype == np.float32
    assert np.isfinite(traces.values).all()
    assert (traces.values >= 0).all()
    most = np.repeat(traces.max_usage[traces.series_tenant], np.diff(traces.series_start), axis=0)
    assert (traces.values <= most).all()
    window = REGIONS[name].window_days * 144
    assert (traces.lifetime_steps <= window).all()
    assert (traces.lifetime_steps[traces.censored] == window).all()
    assert traces.censored.any()


def test_replicas_and_roles_follow_the_class(some: TraceSet) -> None:
    local = some.class_code < len(LOCAL)
    assert (some.replicas == np.where(local, 4, 1)).all()
    assert ((some.series_index[:, Role.SECONDARY] >= 0) == local).all()


def test_secondaries_need_equal_disk_and_less_cpu(some: TraceSet) -> None:
    """A secondary stores the data of the primary, so disk peaks agree within 5 %. It uses less CPU on average."""
    both = some.select(some.replicas > 1)
    history_peak = np.maximum.reduceat(both.values[:, 2], both.series_start[:-1])
    primary, secondary = both.series_index[:, Role.PRIMARY], both.series_index[:, Role.SECONDARY]
    np.testing.assert_allclose(history_peak[secondary], history_peak[primary], rtol=0.05)
    cpu = np.add.reduceat(both.values[:, 0], both.series_start[:-1])
    assert cpu[secondary].sum() < 0.6 * cpu[primary].sum()


@pytest.mark.parametrize("name", REGIONS)
def test_statistics_agree_with_the_published_ones(name: str) -> None:
    """All statistics with published values in [1] sections 3.1, 5.1 and 5.3 hold for 4,000 tenants."""
    rows = check_region(REGIONS[name], tenants=4000, seed=77)
    assert [row for row in rows if row.within is False] == []
    assert sum(row.within is True for row in rows) >= 10


def test_regions_differ_in_classes_and_usage() -> None:
    """Class mix and usage per tenant differ significantly by region ([1] section 8.1)."""
    means = []
    for region in REGIONS.values():
        traces = generate(region, 2000, 4)
        means.append((np.mean(traces.replicas > 1), traces.values[:, 0].mean(), traces.max_usage[:, 0].mean()))
    spread = np.max(means, axis=0) / np.min(means, axis=0)
    assert (spread > 1.4).all()


def test_the_digest_covers_every_parameter() -> None:
    assert attrs.evolve(REGION, window_days=30).digest() == attrs.evolve(REGION).digest() == REGION.digest()
    assert attrs.evolve(REGION, creep=0.021).digest() != REGION.digest()
    assert attrs.evolve(REGION, cpu=attrs.evolve(REGION.cpu, sigma=0.5)).digest() != REGION.digest()
    assert len({region.digest() for region in REGIONS.values()}) == 4


def test_variants_of_a_region_share_random_numbers() -> None:
    """Random streams depend on the name, so unaffected properties of tenants are equal."""
    larger = REGION.changed({"cpu": {"median": 0.2}})
    assert larger == attrs.evolve(REGION, cpu=attrs.evolve(REGION.cpu, median=0.2))
    before, after = generate(REGION, 300, 1), generate(larger, 300, 1)
    assert np.array_equal(before.class_code, after.class_code)
    assert np.array_equal(before.lifetime_steps, after.lifetime_steps)
    assert np.array_equal(before.values[:, 2], after.values[:, 2])
    assert after.values[:, 0].mean() > 1.5 * before.values[:, 0].mean()
    assert REGION.changed({}) == REGION


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"size_bia": 1.0}, UnknownNameError, "did you mean 'size_bias'"),
        ({"name": "other"}, UnknownNameError, "unknown parameter of region region2 'name'"),
        ({"cpu": {"medan": 0.1}}, UnknownNameError, "did you mean 'median'"),
        ({"cpu": 0.1}, InvalidValueError, "expected a table"),
        ({"cpu": {"median": 1.5}}, InvalidValueError, "median = 1.5"),
        ({"size_bias": "large"}, InvalidValueError, "size_bias = 'large'"),
        ({"disk_grower_share": 0.5}, InvalidValueError, "disk_grower_share = 0.5"),
    ],
)
def test_bad_changes_are_refused(changes: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        REGION.changed(changes)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("field", [name for name in attrs.fields_dict(RegionParameters) if name != "name"])
def test_the_ends_of_every_range_give_valid_tenants(field: str) -> None:
    usage = isinstance(getattr(REGION, field), Usage)
    pairs = [("median", 1e-9), ("median", 1 - 1e-9), ("sigma", 0.0), ("sigma", 5.0)]
    ends: list[Any] = [{part: value} for part, value in pairs] if usage else [lowest(field), highest(field)]
    for end in ends:
        changes = {field: end}
        if field in ("initial_high", "secondary_cpu_high", "secondary_memory_high"):
            changes[field.replace("high", "low")] = 0.0
        if field in ("initial_low", "secondary_cpu_low", "secondary_memory_low"):
            changes[field.replace("low", "high")] = 1.0
        traces = generate(REGION.changed(changes), BLOCK, 1)
        assert np.isfinite(traces.values).all()
        assert (traces.values >= 0).all()
        assert (traces.lifetime_steps > 0).all()


@pytest.mark.parametrize(
    ("name", "limits", "replicas"),
    [
        ("BC_Gen5_2", (2, 10.2, 1024), 4),
        ("BC_Gen5_80", (80, 408, 4096), 4),
        ("GP_Gen5_8", (8, 40.8, 256), 1),
        ("GP_S_Gen5_4", (4, 12, 128), 1),
    ],
)
def test_classes_have_the_public_limits(name: str, limits: tuple[float, ...], replicas: int) -> None:
    row = next(tenant_class for tenant_class in CLASSES if tenant_class.name == name)
    assert row.limits == pytest.approx(limits)
    assert row.replicas == replicas


def test_rank_correlation_of_known_orders() -> None:
    values = np.array([3.0, 1.0, 7.0, 5.0])
    assert rank_correlation(values, values**3) == pytest.approx(1.0)
    assert rank_correlation(values, -values) == pytest.approx(-1.0)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("local_share", "0.5"),
        ("cpu", 0.5),
        ("window_days", None),
        ("creep", True),
        ("local_share", 1.2),
        ("initial_low", 1),
        ("name", ""),
    ],
)
def test_parameters_have_the_right_types_and_ranges(name: str, value: Any) -> None:
    with pytest.raises(InvalidValueError, match=f"{name} = "):
        attrs.evolve(REGION, **{name: value})


def test_changes_of_a_range_are_checked_together() -> None:
    assert not list(REGION.refused({"initial_low": 0.7, "initial_high": 0.9}))
    (error,) = REGION.refused({"initial_low": 0.7, "initial_high": 0.65})
    assert "initial_low = 0.7" in str(error)
    both = list(REGION.refused({"initial_low": 7.0, "cpu": {"median": 2.0, "sigma": -1.0}}))
    assert len(both) == 3


@pytest.mark.parametrize(
    "call",
    [
        lambda: generate(REGION, 0, 1),
        lambda: list(generate_chunks(REGION, 0, 1)),
        lambda: list(generate_chunks(REGION, 1, 1, chunk=0)),
        lambda: generate_history(REGION, 0, 1),
        lambda: check_region(REGION, 0),
    ],
)
def test_no_tenants_are_refused(call: Any) -> None:
    with pytest.raises(InvalidValueError, match=r"generate: .* = 0 is not allowed; expected a whole number >= 1"):
        call()


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_serverless_tenants_are_compared_only_with_others(share: float) -> None:
    region = REGION.changed({"serverless_share": share, "local_share": 0.0})
    rows = check_region(region, 60)
    assert not any("serverless tenants, as a multiple" in row.statistic for row in rows)
    assert all(np.isfinite(row.generated) for row in rows)
