"""The commands in `benchmarks` that compare results, and that sample passages of code for a test of names."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import polars as pl
import pytest

from tests.sources import ROOT


def load(path: str) -> ModuleType:
    """Return a script of `benchmarks` as a module."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / "benchmarks" / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write(folder: Path, policy: str, violations: int, reasons: list[str]) -> Path:
    """Write a results directory of one run, and return it."""
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
