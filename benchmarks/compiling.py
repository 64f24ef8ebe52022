"""Effect of forced inlining and hand-written instructions: proposals per second of processor time without them.

    python benchmarks/compiling.py                  # without forced inlining, one kernel at a time
    python benchmarks/compiling.py --all            # without forced inlining of all kernels
    python benchmarks/compiling.py --instructions   # without the kernels in INSTRUCTIONS

Each variant alternates with the present engine, each in its own process and cache directory.
"""

from __future__ import annotations

import argparse
import importlib
import os
import pkgutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import plb
from cluster.bench.engine import SizeBench, bench_cluster
from plb.compiler import Kernel

PROPOSALS = 200_000
RUNS = 25
"""Number of runs; the fastest counts."""
ROUNDS = 3
"""Number of alternations of a variant and the present engine; the fastest of each counts."""
SMALL, LARGE = 40, 10_000


def inlined_kernels() -> Iterator[tuple[str, Kernel[..., object]]]:
    """Yield the kernels with forced inlining, by name."""
    for module in pkgutil.walk_packages(plb.__path__, "plb."):
        if ".learning" in module.name:
            continue
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, Kernel) and value.inline and value.__module__ == module.name:
                yield f"{module.name}.{value.__name__}", value


def sample_by_call() -> None:
    """Let kernels call the sampling function of NumPy instead of inlining it. Rows are not prefetched either."""
    from plb.compiler import intrinsics

    intrinsics._is_laid_out_as_known = lambda: False


def fetch_nothing() -> None:
    """Disable the prefetch."""
    from plb.search.annealing import move_generation

    move_generation.ROWS_IN_CACHE = 2**62


def mark_no_loads() -> None:
    """Do not mark the arrays behind a pointer as constant."""
    from plb.compiler import handles

    read: Any = handles._read

    def unmarked(builder: Any, pointer: Any) -> Any:
        value = read(builder, pointer)
        getattr(value, "metadata", {}).clear()
        return value

    handles._read = unmarked


INSTRUCTIONS = {
    "random numbers by call": sample_by_call,
    "no rows fetched ahead": fetch_nothing,
    "loads not marked as constant": mark_no_loads,
}


def measured(nodes: int) -> tuple[float, float]:
    """Return proposals per second at 5 % and at 50 % acceptance."""
    bench = SizeBench(bench_cluster(nodes, seed=0), PROPOSALS, 0)
    cold, warm = bench.temperature_for(0.05), bench.temperature_for(0.5)
    scored = bench.score(cold)[0]
    return scored / _fastest(lambda: bench.score(cold)), scored / _fastest(lambda: bench.score(warm))


def _fastest(run: Callable[[], object]) -> float:
    """Return the processor seconds of the fastest run."""
    taken = []
    for _ in range(RUNS):
        begun = time.process_time()
        run()
        taken.append(time.process_time() - begun)
    return min(taken)


def _compare(what: str, nodes: int, arguments: Sequence[str]) -> None:
    """Measure a variant in alternation with the present engine, and print the loss."""
    with tempfile.TemporaryDirectory() as changed, tempfile.TemporaryDirectory() as same:
        rounds = [(_new_process(nodes, arguments, changed), _new_process(nodes, [], same)) for _ in range(ROUNDS)]
    variant, engine = ([max(speeds) for speeds in zip(*side, strict=True)] for side in zip(*rounds, strict=True))
    shares = [100 * (one / other - 1) for one, other in zip(variant, engine, strict=True)]
    print(f"{nodes:6,} nodes {shares[0]:+6.1f} % {shares[1]:+6.1f} %  {what}", flush=True)


def _new_process(nodes: int, arguments: Sequence[str], cache: str) -> tuple[float, float]:
    command = [sys.executable, __file__, "--measure", str(nodes), *arguments]
    environment = {**os.environ, "PLB_CACHE_DIR": cache}
    run = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    early, half = map(float, run.stdout.split())
    return early, half


def main() -> None:
    """Print one line per variant: the loss at 5 % and at 50 % acceptance."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="without forced inlining of all kernels")
    parser.add_argument("--instructions", action="store_true", help="without hand-written instructions")
    parser.add_argument("--measure", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--left", nargs="*", default=[], help=argparse.SUPPRESS)
    parser.add_argument("--without", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        for name, kernel in inlined_kernels():
            kernel.inline = name not in options.left
        if options.without:
            INSTRUCTIONS[options.without]()
        print(*measured(options.measure))
    elif options.instructions:
        for name in INSTRUCTIONS:
            for nodes in (SMALL, LARGE):
                _compare(name, nodes, ["--without", name])
    else:
        names = [name for name, _ in inlined_kernels()]
        sets = {f"all {len(names)}": names} if options.all else {name: [name] for name in names}
        for what, left in sets.items():
            _compare(what, SMALL, ["--left", *left])


if __name__ == "__main__":
    main()
