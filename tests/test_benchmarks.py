"""The commands in `benchmarks`: their imports, and those that compare results, judge a calibration or sample code."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import polars as pl
import pytest

from tests.sources import ROOT

PACKAGES = ("plb", "cluster", "workloads")


def load(path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / "benchmarks" / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def imports_of(path: Path) -> Iterator[tuple[str, str | None]]:
    """Yield what a file imports from the three packages, also within functions: a module, and a name in it or None."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            imported = [(str(node.module), alias.name) for alias in node.names]
        elif isinstance(node, ast.Import):
            imported = [(alias.name, None) for alias in node.names]
        else:
            continue
        yield from ((module, name) for module, name in imported if module.split(".")[0] in PACKAGES)


@pytest.mark.parametrize("path", sorted((ROOT / "benchmarks").rglob("*.py")), ids=lambda path: path.name)
def test_a_benchmark_imports_what_exists(path: Path) -> None:
    """If a module or a name moves, the benchmarks change, too."""
    for module, name in imports_of(path):
        found = importlib.import_module(module)
        if name is not None and not hasattr(found, name):
            importlib.import_module(f"{module}.{name}")


@pytest.mark.parametrize(
    ("instruction", "replaced"),
    [
        ("random numbers by call", "plb.compiler.intrinsics._is_laid_out_as_known"),
        ("no rows fetched ahead", "plb.search.annealing.move_generation.ROWS_IN_CACHE"),
        ("loads not marked as constant", "plb.compiler.handles._read"),
    ],
)
def test_a_variant_replaces_an_instruction(monkeypatch: pytest.MonkeyPatch, instruction: str, replaced: str) -> None:
    """The name that a variant replaces exists in the engine; the test puts it back."""
    module, _, name = replaced.rpartition(".")
    before = getattr(importlib.import_module(module), name)
    monkeypatch.setattr(replaced, before)
    load("compiling.py").INSTRUCTIONS[instruction]()
    assert getattr(importlib.import_module(module), name) is not before


def write(folder: Path, policy: str, violations: int, reasons: list[str]) -> Path:
    (folder / "runs" / f"{policy}-0").mkdir(parents=True)
    pl.DataFrame({"policy": [policy] * 2, "rule": reasons}).write_parquet(folder / f"runs/{policy}-0/moves.parquet")
    run = {"policy": policy, "repeat": 0, "violations": violations}
    (folder / "summary.json").write_text(json.dumps({"runs": [run]}))
    (folder / "timings.json").write_text(json.dumps({"seconds": violations}))
    return folder


def test_renamed_results_are_equal_by_value(tmp_path: Path) -> None:
    """A rename applies to directories of runs, to values of tables, and to keys and texts of JSON files."""
    same = load("same_results.py")
    before = write(tmp_path / "before", "overload", 3, ["capacity", "make room"])
    after = write(tmp_path / "after", "expected_overload", 3, ["capacity", "eviction"])
    names = {"overload": "expected_overload", "make room": "eviction"}
    assert list(same.differences(before, after, names)) == []


def test_differences_of_results_name_file_place_and_values(tmp_path: Path) -> None:
    """Timings are not compared."""
    same = load("same_results.py")
    before = write(tmp_path / "before", "modified", 3, ["capacity", "eviction"])
    after = write(tmp_path / "after", "modified", 4, ["capacity", "affinity"])
    assert list(same.differences(before, after, {})) == [
        "runs/modified-0/moves.parquet: rule: 1 rows, first eviction -> affinity",
        "summary.json/runs/0/violations: 3 -> 4",
    ]


def test_passages_are_a_seeded_sample_with_a_key(tmp_path: Path) -> None:
    """Equal seeds give equal passages; each is in the file that the key names, and names no file."""
    navigation = load("navigation/navigation.py")
    for folder in ("one", "two"):
        navigation.write_passages(7, 120, tmp_path / folder)
    text = (tmp_path / "one" / "passages.txt").read_text()
    assert text == (tmp_path / "two" / "passages.txt").read_text()
    key = json.loads((tmp_path / "one" / "key.json").read_text())
    assert len(key) == 2 * sum(navigation.PACKAGES.values())
    for number, passage in enumerate(text.split("=== passage ")[1:], 1):
        heading, _, code = passage.partition("\n")
        assert heading == str(number)
        assert code.strip().splitlines()[0] in (ROOT / key[heading]).read_text()


def test_parts_of_a_run_have_the_time_without_the_parts_that_they_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that advances by one second at each reading shows which part is counted."""
    simulator = load("simulator.py")
    monkeypatch.setattr(simulator.time, "process_time", iter(range(100)).__next__)
    shares = simulator.Shares()
    search = shares.counted("search", lambda: None)
    shares.counted("plans", lambda: (search(), search()))()
    assert shares.seconds == {"search": 2, "plans": 3, "calls": 0, "simulator": 1}


def write_runs(folder: Path, seed: int, runs: dict[str, dict[int, int]], tenants: int = 9) -> None:
    """Write a results directory with the violations of each policy, by repeat."""
    folder.mkdir(parents=True)
    figures = {"failovers": 0, "moves": 1, "placement_failures": 0, "tenants": tenants}
    rows = [
        {"policy": policy, "repeat": repeat, "violations": violations, **figures}
        for policy, of_policy in runs.items()
        for repeat, violations in of_policy.items()
    ]
    (folder / "summary.json").write_text(json.dumps({"seed": seed, "runs": rows}))


def test_paired_runs_name_what_has_no_partner(tmp_path, monkeypatch, capsys):
    """Scenarios, policies and repeats of one version alone; a policy without a common repeat has no line."""
    paired = load("paired_runs.py")
    write_runs(tmp_path / "before" / "q", 1, {"a": {0: 1, 1: 2, 2: 3}, "b": {0: 3}, "c": {0: 1}})
    write_runs(tmp_path / "after" / "q", 1, {"a": {0: 2, 1: 4}, "b": {1: 3}, "d": {0: 1}})
    write_runs(tmp_path / "after" / "r", 1, {"a": {0: 1}})
    monkeypatch.setattr("sys.argv", ["paired_runs.py", str(tmp_path / "before"), str(tmp_path / "after")])
    paired.main()
    shown = capsys.readouterr()
    lines = [line.split() for line in shown.out.splitlines()[1:]]
    assert {tuple(line[:2]) for line in lines} == {("q", "a")}
    assert lines[0][2:7] == ["violations", "2", "1.5", "3.0", "+1.50"]
    assert shown.err.splitlines() == [
        "r: only after, left out",
        "q, c: only before, left out",
        "q, d: only after, left out",
        "q, a: repeat 2 only before, left out",
        "q, b: repeat 0 only before, left out",
        "q, b: repeat 1 only after, left out",
        "q, b: no repeat in both versions",
    ]


@pytest.mark.parametrize(
    ("after", "message"),
    [
        ({"seed": 2}, "q: the runs are no pairs: the seed was 1 before and is 2 after"),
        ({"tenants": 8}, "q, a: repeat 0 has other tenants, 9.0 before and 8.0 after"),
        ({"runs": {"b": {0: 1}}}, "no run is in both directories"),
    ],
)
def test_paired_runs_of_other_tenants_are_refused(tmp_path, monkeypatch, after, message):
    """The message says in what the two versions differ."""
    paired = load("paired_runs.py")
    same = {"seed": 1, "runs": {"a": {0: 1}}}
    write_runs(tmp_path / "before" / "q", **same)
    write_runs(tmp_path / "after" / "q", **(same | after))
    monkeypatch.setattr("sys.argv", ["paired_runs.py", str(tmp_path / "before"), str(tmp_path / "after")])
    with pytest.raises(SystemExit, match=message):
        paired.main()


def score(value: float, low: float | None) -> dict[str, float | None]:
    """Return a score as the study of calibration writes it."""
    return {"value": value, "low": low, "high": value}


def test_a_calibration_is_judged_as_predicted_or_recalibrated(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An error of 0.02 is allowed, and the interval of the skill must be above 0; a single repeat has no other."""
    calibration = load("calibration.py")
    wrong = {"base_rate": score(0.1, 0.0), "calibration_error": score(0.3, 0.2), "skill": score(-0.5, -0.9)}
    right = {"base_rate": score(0.1, 0.0), "calibration_error": score(0.02, 0.0), "skill": score(0.4, 0.1)}
    found = {"workload": "w", "label": "e", "outcome": "held", "horizon": "1 hour", "scores": wrong}
    scores = [{**found, "recalibrated": right}, {**found, "outcome": "as it went", "recalibrated": right}]
    monkeypatch.setattr(calibration, "scores_of_study", lambda *_: scores)

    def printed(*options: str) -> list[str]:
        monkeypatch.setattr("sys.argv", ["calibration.py", "--estimator", "e", *options])
        calibration.main()
        return capsys.readouterr().out.splitlines()[1].split()

    assert printed() == ["w", "1", "hour", "0.100", "0.300", "missed", "-0.500", "missed"]
    assert printed("--recalibrated") == ["w", "1", "hour", "0.100", "0.020", "met", "0.400", "met"]
    scores[:] = [{**found, "recalibrated": None}]
    with pytest.raises(SystemExit, match="needs the outcomes of other repeats"):
        printed("--recalibrated")
    scores.clear()
    with pytest.raises(SystemExit, match="no estimator e"):
        printed()
