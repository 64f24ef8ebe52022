"""Mutants of accumulators, constraints and eligibility, and whether the tests detect them.

The mutations are those of cosmic-ray. Kernels run as plain Python, so nothing is compiled. Each mutant has its own
process, a fork of one that has imported everything except `plb`, and no file changes. Results are kept in
`results/mutants.jsonl` and are valid until the mutated module changes.

    python benchmarks/mutants.py                  # the sample of benchmarks/mutants.toml
    python benchmarks/mutants.py --sample 9999    # all of them, which takes hours
    python benchmarks/mutants.py --survivors      # runs the survivors again, and those that were out of time
"""

from __future__ import annotations

import argparse
import ast
import difflib
import hashlib
import importlib
import importlib.abc
import importlib.util
import json
import os
import random
import re
import resource
import signal
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import attrs

ROOT = Path(__file__).parent.parent
MEMORY = 6 * 2**30
"""Bytes of address space for the tests of a mutant; some mutants compute endless numbers."""
SURVIVED, KILLED, OUT_OF_TIME = "survived", "killed", "out of time"
"""Outcomes. A mutant whose tests take too long is detected like a killed one, but a busy machine may be the cause."""


@attrs.frozen(slots=False)
class Mutant:
    """A mutation at one place of a module.

    Parameters
    ----------
    module
        Path of the module.
    operator, occurrence
        The operator of cosmic-ray, and the index of the place. Without an operator, the module is unchanged.
    tests
        Files of tests, one of which has to fail.
    """

    module: str
    operator: str
    occurrence: int
    tests: tuple[str, ...]

    @cached_property
    def source(self) -> str:
        """The source of the module with the mutation, if there is one."""
        from cosmic_ray.mutating import mutate_code
        from cosmic_ray.plugins import get_operator

        source = ROOT.joinpath(self.module).read_text()
        return (
            mutate_code(source, get_operator(self.operator)(), self.occurrence) or source if self.operator else source
        )

    @cached_property
    def change(self) -> str:
        """The different lines, as "before -> after"."""
        before, after = ROOT.joinpath(self.module).read_text().splitlines(), self.source.splitlines()
        blocks = difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
        differ = [(before[a:b], after[c:d]) for tag, a, b, c, d in blocks if tag != "equal"]
        removed, added = (
            " ".join(line.strip() for part in side for line in part) for side in zip(*differ, strict=True)
        )
        return f"{removed} -> {added}"

    @property
    def key(self) -> str:
        """The key of the result."""
        digest = hashlib.sha256(ROOT.joinpath(self.module).read_bytes()).hexdigest()
        return f"{self.module} {digest[:12]} {self.operator} {self.occurrence}"


def mutants_of(module: str, tests: Sequence[str]) -> list[Mutant]:
    """Return every mutant of a module."""
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.plugins import get_operator, operator_names

    nodes = list(ast_nodes(get_ast(ROOT.joinpath(module).read_text())))
    found = []
    for name in sorted(operator_names()):
        operator = get_operator(name)
        if not operator.arguments():
            places = sum(len(list(operator().mutation_positions(node))) for node in nodes)
            found += [Mutant(module, name, occurrence, tuple(tests)) for occurrence in range(places)]
    return found


def sample_of(
    among: Sequence[Mutant], size: int, same: Sequence[re.Pattern[str]], seed: int
) -> tuple[list[Mutant], int]:
    """Return random mutants of one module, and the number of omitted equivalent ones."""
    original = without_annotations(Mutant(among[0].module, "", 0, ()).source)
    chosen: list[Mutant] = []
    left_out = 0
    for mutant in random.Random(f"{seed} {among[0].module}").sample(among, len(among)):
        if len(chosen) == size:
            break
        if without_annotations(mutant.source) == original or any(one.search(mutant.change) for one in same):
            left_out += 1
        else:
            chosen.append(mutant)
    return chosen, left_out


def without_annotations(source: str) -> str:
    """Return the syntax tree of a module as text, without the annotations, which are not evaluated."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            node.returns = None
        elif isinstance(node, ast.arg | ast.AnnAssign):
            node.annotation = ast.Constant(None)
    return ast.dump(tree)


def run_tests_of(mutant: Mutant, seconds: int) -> None:
    """Run the tests of a mutant in this process, which exits with 0 if all pass."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    signal.setitimer(signal.ITIMER_PROF, seconds)
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    sys.meta_path.insert(0, _Changed(mutant))
    import pytest

    plugins = [part for name in ("cacheprovider", "xdist", "cov", "benchmark", "mpl") for part in ("-p", f"no:{name}")]
    options = ["-o", "addopts=", "-m", "kernels", "--hypothesis-profile=full", "-x", "-q", "--tb=no", "--assert=plain"]
    os._exit(int(pytest.main([*mutant.tests, *options, *plugins], plugins=[_EndsWhatHangs(seconds)])))


@attrs.frozen
class _EndsWhatHangs:
    """A plugin of pytest that ends the process after too much processor time in one test."""

    seconds: int

    def pytest_runtest_setup(self) -> None:
        signal.setitimer(signal.ITIMER_PROF, self.seconds)


class _Changed(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """Imports one module with the mutation."""

    def __init__(self, mutant: Mutant) -> None:
        self.name = mutant.module.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        self.path, self.text = str(ROOT / mutant.module), mutant.source

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:  # noqa: ARG002
        if fullname != self.name:
            return None
        is_package = self.path.endswith("__init__.py")
        places = [str(Path(self.path).parent)] if is_package else None
        return importlib.util.spec_from_file_location(
            fullname, self.path, loader=self, submodule_search_locations=places
        )

    def get_source(self, fullname: str) -> str:  # noqa: ARG002
        return self.text

    def is_package(self, fullname: str) -> bool:  # noqa: ARG002
        return self.path.endswith("__init__.py")

    def get_filename(self, fullname: str) -> str:  # noqa: ARG002
        return self.path


def prepare() -> None:
    """Import the modules that all mutants share, and make Hypothesis deterministic and stop at the first failure."""
    os.environ |= {"NUMBA_DISABLE_JIT": "1", "OPENBLAS_NUM_THREADS": "1"}
    sys.path.insert(0, str(ROOT))
    os.chdir(ROOT)
    import hypothesis.stateful

    for name in ("cattrs", "hypothesis.extra.numpy", "numba", "pytest"):
        importlib.import_module(name)
    hypothesis.settings.register_profile(
        "mutants",
        database=None,
        derandomize=True,
        deadline=None,
        report_multiple_bugs=False,
        phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    hypothesis.settings.load_profile("mutants")


def outcomes(mutants: Sequence[Mutant], jobs: int, seconds: int) -> Iterator[tuple[Mutant, str]]:
    """Run several mutants at a time, and yield the outcome of each."""
    running: dict[int, Mutant] = {}
    waiting = list(reversed(mutants))
    while waiting or running:
        while waiting and len(running) < jobs:
            mutant = waiting.pop()
            child = os.fork()
            if child == 0:
                run_tests_of(mutant, seconds)
            running[child] = mutant
        child, status = os.wait()
        hangs = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGPROF
        yield running.pop(child), SURVIVED if status == 0 else OUT_OF_TIME if hangs else KILLED


def results_of(mutants: Sequence[Mutant], kept: Path, known: dict[str, str], jobs: int, seconds: int) -> dict[str, str]:
    """Return the outcome of each mutant by key, and store new outcomes."""
    found = dict(known)
    waiting = [mutant for mutant in mutants if mutant.key not in found]
    unchanged = [Mutant(module, "", 0, tests) for tests, module in {one.tests: one.module for one in waiting}.items()]
    for mutant, outcome in outcomes(unchanged, jobs, seconds):
        if outcome != SURVIVED:
            sys.exit(f"{' '.join(mutant.tests)}: the tests fail on the code as it is")
    began = time.perf_counter()
    with kept.open("a") as file:
        for number, (mutant, outcome) in enumerate(outcomes(waiting, jobs, seconds), start=1):
            found[mutant.key] = outcome
            file.write(json.dumps({"mutant": mutant.key, "outcome": outcome}) + "\n")
            file.flush()
            if number % 20 == 0:
                print(f"{number} of {len(waiting)} run, {time.perf_counter() - began:.0f} s", flush=True)
    return found


def report(mutants: Sequence[Mutant], found: dict[str, str], there_are: Counter[str], left_out: Counter[str]) -> float:
    """Print survivors, and figures by module; return the share of killed mutants."""
    for mutant in mutants:
        if found[mutant.key] == SURVIVED:
            print(f"survived: {mutant.module} {mutant.operator} {mutant.occurrence}\n    {mutant.change}")
    tried_of = Counter(mutant.module for mutant in mutants)
    killed = Counter(mutant.module for mutant in mutants if found[mutant.key] != SURVIVED)
    hang = Counter(mutant.module for mutant in mutants if found[mutant.key] == OUT_OF_TIME)
    figures = there_are, left_out, tried_of, killed, hang
    rows = [(name, *(of[name] for of in figures)) for name in sorted(tried_of)]
    rows.append(("all", *(sum(row[column] for row in rows) for column in range(1, 6))))
    print(f"\n{'module':<40}{'mutants':>9}{'omitted':>10}{'run':>7}{'killed':>8}{'by time':>9}{'share':>8}")
    for name, mutants_here, out, tries, kills, late in rows:
        print(f"{name:<40}{mutants_here:>9}{out:>10}{tries:>7}{kills:>8}{late:>9}{kills / max(1, tries):>8.1%}")
    return killed.total() / max(1, tried_of.total())


def main() -> None:
    """Run a sample of the mutants, and end with an error if too few were killed."""
    settings = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sample", type=int, default=settings["sample"], help="total number of mutants")
    parser.add_argument("--only", default="", help="only modules whose path matches this pattern")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="number of parallel mutants")
    parser.add_argument("--survivors", action="store_true", help="run the survivors again")
    parser.add_argument("--kept", type=Path, default=ROOT / "results" / "mutants.jsonl", help="file of the results")
    chosen = parser.parse_args()
    prepare()
    same = [re.compile(one["change"]) for one in settings["equivalent"]]
    every = {module: mutants_of(module, group["tests"]) for group in settings["group"] for module in group["modules"]}
    population = Counter({module: len(mutants) for module, mutants in every.items()})
    sample, left_out = [], Counter[str]()
    for module, mutants in every.items():
        if re.search(chosen.only, module):
            size = max(settings["least_of_a_module"], round(chosen.sample * len(mutants) / population.total()))
            of_module, left_out[module] = sample_of(mutants, size, same, settings["seed"])
            sample += of_module
    chosen.kept.parent.mkdir(parents=True, exist_ok=True)
    lines = chosen.kept.read_text().splitlines() if chosen.kept.exists() else []
    known = {one["mutant"]: one["outcome"] for one in map(json.loads, lines)}
    if chosen.survivors:
        known = {key: outcome for key, outcome in known.items() if outcome == KILLED}
    found = results_of(sample, chosen.kept, known, chosen.jobs, settings["seconds"])
    if report(sample, found, population, left_out) < settings["share_killed"]:
        sys.exit(f"fewer than {settings['share_killed']:.0%} of the mutants were killed")


if __name__ == "__main__":
    main()
