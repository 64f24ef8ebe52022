"""Conversion of samples to tenants: steps, gaps and windows compared with plain Python, for any memory limit."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import attrs
import numpy as np
import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from workloads.readers import Options, convert, read_public
from workloads.readers.base import family_numbers, one_class, sized_classes
from workloads.readers.external_sort import REFUSED, ROW, Frame
from workloads.readers.sampled import SampledReader
from workloads.trace import MetricInfo
from workloads.trace_files import read_traces

STEP = 600
ROWS = 60
"""Rows per frame. The minimum of `rows_in_memory` is 1000, so tests of several files have more."""


def sample_reader(
    rows: list[tuple[str, int, float]], *, clip: bool = True, limit: float | None = 50.0
) -> SampledReader:
    """Return a reader of these samples: owner, time and demand."""

    def frames(source: Path, _options: Options, _scratch: Path) -> Iterator[Frame]:
        for first in range(0, len(rows), ROWS):
            owner, time, value = zip(*rows[first : first + ROWS], strict=True)
            table = pl.DataFrame({"owner": owner, "time": time, "cpu": value})
            request = pl.lit(limit, pl.Float32).alias("limit_cpu")
            yield Frame(
                path=source,
                rows=table.with_columns(request, pl.lit(None, pl.String).alias(REFUSED), pl.lit(1).alias(ROW)),
            )

    return SampledReader(
        name="samples",
        files="none",
        metrics=(MetricInfo("cpu", "cores", trend=False),),
        origin="0",
        request="50 cores",
        frames=frames,
        places=("owner", "time"),
        reasons=(),
        classes=one_class("any"),
        clip=clip,
    )


def tenants_by_hand(rows: list[tuple[str, int, float]], longest_gap: int, longest: int) -> dict[str, list[float]]:
    """Return the demand of each tenant by name, from the rules of the readers applied row by row."""
    first: dict[tuple[str, int], float] = {}
    for owner, time, value in rows:
        first.setdefault((owner, time), value)
    steps: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for (owner, time), value in first.items():
        steps[owner][time // STEP].append(value)
    tenants: dict[str, list[float]] = {}
    for owner in sorted(steps):
        series: list[tuple[int, list[float]]] = []
        for step in sorted(steps[owner]):
            value = sum(steps[owner][step]) / len(steps[owner][step])
            if series and step - (series[-1][0] + len(series[-1][1])) <= longest_gap:
                begin, values = series[-1]
                values += [values[-1]] * (step - begin - len(values)) + [value]
            else:
                series.append((step, [value]))
        for begin, values in series:
            for at in range(0, len(values), longest):
                tenants[f"{owner}@{begin + at}"] = [min(value, 50.0) for value in values[at : at + longest]]
    return tenants


SAMPLES = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(0, 40 * STEP), st.integers(0, 80).map(float)),
    min_size=1,
    max_size=200,
)


@given(rows=SAMPLES, gap=st.integers(0, 20), window=st.integers(6, 20))
@example(rows=[("a", 0, 1.0), ("a", STEP, 2.0), ("a", 7 * STEP, 3.0)], gap=5, window=6)  # begins in a filled gap
@example(rows=[("a", 0, 1.0), ("a", 20 * STEP, 3.0)], gap=20, window=6)  # two windows begin in the same gap
def test_steps_gaps_and_windows_are_those_of_plain_python(rows, gap, window) -> None:
    options = Options(max_gap_minutes=gap * 10.0, window_days=window / 144)
    traces, report = read_public(sample_reader(rows), "somewhere", options)
    expected = tenants_by_hand(rows, gap, window)
    assert traces.tenant_names().tolist() == list(expected)
    np.testing.assert_allclose(traces.values[:, 0], np.concatenate([*expected.values()]), rtol=1e-6)
    assert report.rows_read == len(rows) == report.rows_kept + sum(report.rows_refused.values())
    assert report.rows_kept == len({row[:2] for row in rows})
    assert report.steps_kept == sum(map(len, expected.values())) == report.steps + report.steps_filled


def test_the_memory_limit_does_not_change_the_files(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    rows = [(f"vm{rng.integers(40)}", int(rng.integers(200 * STEP)), float(rng.integers(60))) for _ in range(9000)]
    written = []
    for number, memory in enumerate((1000, 10**6)):
        report = convert(sample_reader(rows), "s", tmp_path / str(number), Options(rows_in_memory=memory))
        written.append((report, read_traces(tmp_path / str(number))))
    (small, from_files), (large, from_memory) = written
    assert small == large
    assert small.rows_refused
    for field in attrs.fields(type(from_files)):
        left, right = getattr(from_files, field.name), getattr(from_memory, field.name)
        assert np.array_equal(left, right), field.name


def test_the_first_of_repeated_rows_counts_across_files() -> None:
    early = [("a", 0, 7.0), *[("b", at, 1.0) for at in range(999)]]
    late = [("a", 0, 9.0), *[("c", at, 1.0) for at in range(999)]]
    traces, report = read_public(sample_reader(early + late), "s", Options(rows_in_memory=1000))
    assert traces.values[0].tolist() == [7.0]
    assert report.rows_kept == report.rows_read - 1


@pytest.mark.parametrize(
    ("clip", "limit", "last", "most", "above"),
    [(True, 50.0, 50.0, 50.0, 1), (False, 50.0, 70.0, 70.0, 1), (True, None, 70.0, 70.0, 0)],
)
def test_usage_above_the_request_is_clipped_or_raises_max_usage(clip, limit, last, most, above) -> None:
    traces, report = read_public(sample_reader([("a", 0, 40.0), ("a", 600, 70.0)], clip=clip, limit=limit), "s")
    assert traces.values[:, 0].tolist() == [40.0, last]
    assert traces.max_usage.tolist() == [[most]]
    assert (report.clipped, report.over_request) == (({"cpu": above}, {}) if clip else ({}, {"cpu": above}))


def test_a_failed_conversion_keeps_earlier_traces(tmp_path: Path) -> None:
    convert(sample_reader([("a", 0, 40.0)]), "s", tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(ValueError, match="no rows"):
        convert(sample_reader([]), "s", tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@given(size=st.floats(1e-3, 1e4))
def test_classes_round_sizes_up_to_powers_of_two(size: float) -> None:
    steps = pl.DataFrame({"owner": ["a"], "limit_cpu": [size]})
    (name,) = sized_classes("vm", {"c": pl.col("limit_cpu").median()})(steps)["tenant_class"]
    rounded = float(name.removeprefix("vm_c"))
    assert rounded >= size * (1 - 5e-3)
    assert rounded < 2 * size * (1 + 5e-3)


def test_families_are_deterministic() -> None:
    assert family_numbers([5, 9, 5]).tolist() == [5, 9, 5]
    assert family_numbers(["host"]).tolist() == [4115776633491850731]
    assert len(set(family_numbers([f"host{n}" for n in range(1000)]).tolist())) == 1000
