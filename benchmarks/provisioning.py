"""Speed of provisioning and of the programs of the authors of [3], on their instances and at the largest sizes.

The folder contains ``peer_results.csv`` (instance, algorithm, nodes, lower_bound, seconds) and its instances.
Seconds are those of the algorithm alone: the best of three, on one thread, with compiled kernels.

    python benchmarks/provisioning.py ../shared/data/lra
    python benchmarks/provisioning.py ../shared/data/lra --large
    python benchmarks/provisioning.py ../shared/data/lra --curves ../shared/data/tianchi2018_prelim_b
"""

from __future__ import annotations

import argparse
import csv
import resource
from pathlib import Path

from cluster.bench.kernels import fastest
from plb.compiler import working_time
from plb.provisioning import Instance, ProvisioningPlan, moves_between, provision, replan
from workloads.provisioning import (
    PAPER_NODES,
    larger_instance,
    read_authors,
    read_contest,
    read_contest_placement,
    with_graph,
)

PEERS = "peer_results.csv"
NAMES = {
    "FFD-Degree (Medea-TP)": "Medea-TagPopularity",
    "NCD-Fitness (LRASched)": "LRASched-Fitness",
    "WFD-AvgExpo": "WFD-AvgExp",
}
"""Names in the programs of the authors, if different."""
RUNS = 3
SEARCH_SECONDS = 35.0
"""Seconds of the best algorithm of the authors on the instance with 1 % density."""
LARGEST, LARGE_DENSITY = 100_000, 0.005
LARGE_RUNS = (("FF", "paper"), ("SpreadWFD-Avg-BinSearch", "released"), ("SpreadWFD-Avg-BinSearch", "paper"))
CURVE_DENSITY = 0.01
MOVES = (0, 1_000, 5_000, 20_000, None)
SEED = 1


def compare_with_peers(folder: Path) -> None:
    """Print node counts and seconds of every row of the authors, and of plb with their rules."""
    print(f"{'instance':20} {'algorithm':24} {'nodes':>6} {'ours':>6} {'seconds':>8} {'ours':>8} {'ratio':>6}")
    with (folder / PEERS).open(newline="") as file:
        rows = list(csv.DictReader(file))
    instances = {
        name: read_authors(folder / f"{name}.csv.gz") for name in dict.fromkeys(row["instance"] for row in rows)
    }
    for row in rows:
        name, algorithm = row["instance"], NAMES.get(row["algorithm"], row["algorithm"])
        plan = provision(instances[name], algorithm, rules="released")
        _check(plan)
        seconds = fastest(lambda: provision(instances[name], algorithm, rules="released"), RUNS)  # noqa: B023
        theirs = float(row["seconds"])
        print(
            f"{name:20} {algorithm:24} {row['nodes']:>6} {plan.nodes:6} {theirs:8.2f} {seconds:8.3f} "
            f"{theirs / seconds:6.1f}"
        )
    for name, instance in instances.items():
        run_algorithm(f"auto, {SEARCH_SECONDS:g} s", name, instance, "auto", SEARCH_SECONDS)


def run_algorithm(what: str, name: str, instance: Instance, algorithm: str, limit: float | None = None) -> None:
    """Print the result of one run."""
    began = working_time()
    plan = provision(instance, algorithm, time_limit=limit)
    seconds = working_time() - began
    _check(plan)
    print(
        f"{name}, {what}: {plan.nodes:,} nodes, lower bound {plan.lower_bound:,}, {plan.deviation_percent:.2f} % "
        f"above, {seconds:.1f} s"
    )


def large(folder: Path) -> None:
    """Print seconds and memory at the largest size of the paper."""
    base = read_authors(folder / "TClab_dataset_2D.csv.gz")
    began = working_time()
    instance = larger_instance(base, LARGEST, "arbitrary", LARGE_DENSITY, SEED)
    name = f"{LARGEST:,} applications, {len(instance.affinity):,} limits"
    print(f"{name}: generated in {working_time() - began:.0f} s, {_memory()}")
    for algorithm, rules in LARGE_RUNS:
        began = working_time()
        plan = provision(instance, algorithm, rules=rules)
        seconds = working_time() - began
        print(
            f"{algorithm}, rules {rules}: {plan.nodes:,} nodes, {plan.deviation_percent:.2f} % above, {seconds:.1f} s, "
            f"{_memory()}",
            flush=True,
        )
        _check(plan)


def curves(directory: Path) -> None:
    """Print seconds at 98 time points."""
    base = read_contest(directory, nodes=PAPER_NODES, self_limits=False)
    instance = with_graph(base, "arbitrary", CURVE_DENSITY, SEED)
    for algorithm in ("FF", "SpreadWFD-Avg-Decr2", "SpreadWFD-Avg-BinSearch"):
        run_algorithm(algorithm, f"{instance.time_points} time points", instance, algorithm)
    run_algorithm(
        f"auto, {SEARCH_SECONDS:g} s", f"{instance.time_points} time points", instance, "auto", SEARCH_SECONDS
    )
    print(_memory())
    replanned(directory)


def replanned(directory: Path) -> None:
    """Print the number of machines of the contest after limited numbers of moves from the initial placement."""
    instance = read_contest(directory)
    before = read_contest_placement(directory, instance)
    print(f"{before.nodes:,} machines with {before.count.sum():,} of {instance.replicas.sum():,} instances")
    for most_moves in MOVES:
        after = replan(before, most_moves=most_moves, time_limit=SEARCH_SECONDS)
        _check(after)
        moves = moves_between(before, after)
        print(
            f"moves {'any' if most_moves is None else f'{most_moves:,}'}: {after.nodes:,} machines, {moves.moved:,} "
            f"moved, {moves.placed:,} placed, {after.seconds:.1f} s"
        )
    run_algorithm(f"auto, {SEARCH_SECONDS:g} s, from nothing", instance.name, instance, "auto", SEARCH_SECONDS)


def _check(plan: ProvisioningPlan) -> None:
    faults = plan.faults()
    if faults:
        raise SystemExit(f"{plan.algorithm}: {faults[0]}")


def _memory() -> str:
    """Return the peak memory of the process so far."""
    return f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.1f} GB"


def main() -> None:
    """Print the requested figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="folder of peer_results.csv and the instances")
    parser.add_argument("--large", action="store_true", help="100,000 applications instead; takes minutes")
    parser.add_argument("--curves", type=Path, help="directory of the contest: 98 time points, and replanning")
    options = parser.parse_args()
    if options.large:
        large(options.folder)
    if options.curves is not None:
        curves(options.curves)
    if not options.large and options.curves is None:
        compare_with_peers(options.folder)


if __name__ == "__main__":
    main()
