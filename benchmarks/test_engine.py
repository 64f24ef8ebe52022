"""The measurements of `plb bench engine` with pytest-benchmark, for comparison of two versions.

pytest benchmarks --benchmark-autosave
"""

from __future__ import annotations

import pytest

from cluster.bench.engine import SizeBench, bench_cluster

PROPOSALS = 100_000


@pytest.fixture(scope="module", params=[40, 400])
def bench(request):
    """Return the measurements at one size."""
    return SizeBench(bench_cluster(request.param, seed=0), PROPOSALS, seed=0)


@pytest.mark.parametrize("acceptance", [0.5, 0.05])
def test_scoring_with_early_rejection(benchmark, bench, acceptance):
    """Every run evaluates the same number of proposals."""
    temperature = bench.temperature_for(acceptance)
    scored, reached, accepted = benchmark(bench.score, temperature)
    assert 0 < reached <= scored < PROPOSALS
    assert accepted == pytest.approx(acceptance * scored, rel=0.2)


def test_bulk_report_and_refresh(benchmark, bench):
    """All loads are reported, and the next refresh processes them without a search."""
    replicas = bench.choice.movable
    loads = bench.problem.load[replicas] * 0.5

    def report_and_refresh() -> None:
        bench.engine.report_loads(replicas, loads)
        bench.engine.place(budget=0)

    benchmark(report_and_refresh)
