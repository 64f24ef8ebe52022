"""Cost of a proposal by number of metrics and repetitions, on forty nodes, as measured by `plb bench engine`.

python benchmarks/growth.py
"""

from __future__ import annotations

from cluster.bench.engine import METRICS, SizeBench, bench_cluster

NODES = 40
PROPOSALS = 200_000
SHAPES = ((3, 25), (3, 100), (3, 400), (3, 1600), (1, 100), (6, 100))
"""Metrics and repetitions."""


def main() -> None:
    """Print one line per number of metrics and repetitions."""
    print(f"{'metrics':>8}{'repetitions':>13}{'(a) ns':>9}{'(b) 50 % ns':>13}{'(b) 5 % ns':>12}{'bytes a replica':>17}")
    for metrics, repetitions in SHAPES:
        names = [*METRICS[:metrics], *(f"metric{index}" for index in range(metrics - len(METRICS)))]
        bench = SizeBench(bench_cluster(NODES, 0, metrics=names, repetitions=repetitions), PROPOSALS, seed=0)
        speeds = bench.full(), *(bench.early(bench.temperature_for(share))[0] for share in (0.5, 0.05))
        nanoseconds = [1e9 / speed for speed in speeds]
        print(
            f"{metrics:>8}{repetitions:>13}{nanoseconds[0]:>9.0f}{nanoseconds[1]:>13.0f}{nanoseconds[2]:>12.0f}"
            f"{bench.bytes_per_replica():>17,.0f}"
        )


if __name__ == "__main__":
    main()
