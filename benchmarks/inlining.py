"""What forced inlining earns: proposals scored a second of processor time without it, kernel by kernel.

Run it with `.venv/bin/python benchmarks/inlining.py`: each kernel that is compiled into its callers by force is left to
the compiler once, in a process of its own, and the search of forty nodes is measured against one as it is. `--all`
leaves all of them to the compiler at once; `--only TEXT` (repeated) inlines those alone whose names contain the text.
"""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence

import plb
from cluster.bench import SizeBench
from cluster.bench_cluster import bench_cluster
from plb.compiler import Kernel

PROPOSALS = 200_000
RUNS = 25
"""The fastest of so many runs counts."""
BETWEEN = 10
"""Kernels between two measurements with all of them inlined, as the machine may change its speed."""


def inlined_kernels() -> Iterator[tuple[str, Kernel[..., object]]]:
    """Yield the kernels that are inlined by force, by name."""
    for module in pkgutil.walk_packages(plb.__path__, "plb."):
        if ".learning" in module.name:
            continue
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, Kernel) and value.inline and value.__module__ == module.name:
                yield f"{module.name}.{value.__name__}", value


def measured(left: Sequence[str]) -> tuple[float, float]:
    """Return proposals a second at 5 % and at 50 % acceptance, with these kernels left to the compiler."""
    for name, kernel in inlined_kernels():
        kernel.inline = name not in left
    bench = SizeBench(bench_cluster(40, seed=0), PROPOSALS, 0)
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


def _in_new_process(left: Sequence[str]) -> tuple[float, float]:
    arguments = ["--left", *left]
    run = subprocess.run([sys.executable, __file__, *arguments], capture_output=True, text=True, check=True)
    early, full = map(float, run.stdout.split())
    return early, full


def _sets(options: argparse.Namespace, names: Sequence[str]) -> dict[str, Sequence[str]]:
    """Return the sets of kernels to leave to the compiler, by what to call them."""
    if options.only:
        left = [name for name in names if not any(text in name for text in options.only)]
        return {f"only {len(names) - len(left)} inlined: {' '.join(options.only)}": left}
    return {"none inlined": names} if options.all else {name: [name] for name in names}


def main() -> None:
    """Measure and print a line a set."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--left", nargs="*")
    options = parser.parse_args()
    if options.left is not None:
        print(*measured(options.left))
        return
    names = [name for name, _ in inlined_kernels()]
    for number, (what, left) in enumerate(_sets(options, names).items()):
        if number % BETWEEN == 0:
            base = _in_new_process([])
            print(f"{base[0] / 1e6:.2f} and {base[1] / 1e6:.2f} million proposals a second with all {len(names)}")
        found = _in_new_process(left)
        shares = [100 * (one / other - 1) for one, other in zip(found, base, strict=True)]
        print(f"{shares[0]:+6.1f} % {shares[1]:+6.1f} %  {what}", flush=True)


if __name__ == "__main__":
    main()
