"""The digest of the code that makes runs: what counts, what does not, and that presentation makes no runs."""

from __future__ import annotations

import ast
import shutil
import sys
from collections.abc import Callable, Mapping
from functools import partial
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import polars as pl
import pytest

from cluster.capacity.question import Searched, ask
from cluster.capacity.running import Subject, run_at
from cluster.results.writing import versions
from cluster.runs import code_digest as module
from cluster.runs.code_digest import PRESENTATION, code_digest, code_of, digest_of_code, is_below, roots, with_versions
from cluster.runs.sweep import Task
from cluster.studies.base import MODIFIED, base_of_scenario
from cluster.studies.calibration.study import CalibrationStudy
from cluster.studies.compression import CompressionStudy
from cluster.studies.design import run_simulation
from cluster.studies.gaussian.study import GaussianStudy
from cluster.studies.peaks.study import CellSource, PeakStudy
from cluster.studies.policies import OverheadStudy
from cluster.studies.provisioning.design import PublishedFigure
from cluster.studies.provisioning.study import ProvisioningStudy
from plb import PlbError
from tests.cluster import small_studies
from tests.cluster.small_provisioning import write_base
from tests.sources import ROOT, modules
from workloads.realisations import read_samples

CONSTANTS_OF_PRESENTATION = {"COLOURS", "FAILED", "GREY"}
"""Constants of presentation that other modules may import: colours of plots, and an exit code."""


@pytest.fixture
def packages(tmp_path: Path) -> dict[str, Path]:
    """Return two small packages."""
    for name, text in {
        "engine/__init__.py": "",
        "engine/search.py": "STEPS = 3\n",
        "shown/__init__.py": "",
        "shown/table.py": "WIDTH = 80\n",
        "shown/tables.py": "HEIGHT = 80\n",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return {name: tmp_path / name for name in ("engine", "shown")}


def digest(packages: Mapping[str, Path]) -> str:
    """Return the digest of the small packages; `shown.table` is presentation."""
    return digest_of_code(packages, ("shown.table",))


@pytest.mark.parametrize(
    ("name", "text", "counts"),
    [
        ("engine/search.py", "STEPS = 4\n", True),
        ("engine/search.py", '"""Better words."""\n\nSTEPS = 3  # enough\n', False),
        ("engine/further.py", "", True),
        ("shown/table.py", "WIDTH = 90\n", False),
        ("shown/tables.py", "HEIGHT = 90\n", True),
        ("shown/notes.txt", "changed", False),
    ],
)
def test_changes_of_code_change_the_digest(packages: dict[str, Path], name: str, text: str, counts: bool) -> None:
    before = digest(packages)
    (packages["engine"].parent / name).write_text(text)
    assert (digest(packages) != before) is counts


def test_names_count_and_places_do_not(packages: dict[str, Path], tmp_path: Path) -> None:
    there = {name: Path(shutil.copytree(path, tmp_path / "elsewhere" / name)) for name, path in packages.items()}
    assert digest(there) == digest(packages) == digest(dict(reversed(there.items())))
    (there["engine"] / "search.py").rename(there["engine"] / "find.py")
    assert digest(there) != digest(packages)


@pytest.mark.parametrize("library", ["numba", "numpy", "scipy", "simpy"])
def test_versions_count(packages: dict[str, Path], monkeypatch: pytest.MonkeyPatch, library: str) -> None:
    before, version = digest(packages), module.version
    monkeypatch.setattr(module, "version", lambda name: "0.0" if name == library else version(name))
    assert digest(packages) != before


def test_further_libraries_count_where_they_are_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "version", lambda _: "1.0")
    first = with_versions("code", "torch")
    assert first != with_versions("other", "torch")
    monkeypatch.setattr(module, "version", lambda _: "2.0")
    assert first != with_versions("code", "torch")
    monkeypatch.undo()
    assert with_versions("code", "no-such-library") == with_versions("code")


def test_versions_of_results_have_all_libraries_of_the_digest() -> None:
    """Thus a difference of versions explains a difference of code."""
    assert {*module.LIBRARIES} <= {*versions()}


def test_a_package_without_sources_is_refused(packages: dict[str, Path], tmp_path: Path) -> None:
    """A digest of nothing would hide every change."""
    (tmp_path / "compiled").mkdir()
    with pytest.raises(PlbError, match="has no source code"):
        digest({**packages, "compiled": tmp_path / "compiled"})


def test_all_packages_count() -> None:
    assert [(name, path.name) for name, path in roots().items()] == [(name, name) for name in module.PACKAGES]


def _load(path: Path, text: str) -> Callable[..., Any]:
    """Return the function `run` of a file of a user."""
    path.write_text(text)
    spec = spec_from_file_location("mine", path)
    assert spec is not None
    assert spec.loader is not None
    found = module_from_spec(spec)
    spec.loader.exec_module(found)
    return found.run  # type: ignore[no-any-return]


def test_the_module_of_a_users_study_counts(tmp_path: Path) -> None:
    """Its code is in none of the packages. A function without a file has the digest of the packages alone."""
    run = _load(tmp_path / "one.py", "def run(arguments):\n    return {}\n")
    alike = _load(tmp_path / "two.py", "def run(arguments):\n    return {}  # nothing\n")
    other = _load(tmp_path / "three.py", "def run(arguments):\n    return {'a': 1}\n")
    assert code_of(run) == code_of(alike) == code_of(partial(run))
    assert len({code_of(run), code_of(other), code_digest()}) == 3
    space: dict[str, Any] = {"__name__": "__main__"}
    exec("def run(arguments): return {}", space)
    assert code_of(space["run"]) == code_of(run_simulation) == code_digest()


# presentation


def test_every_name_of_presentation_is_that_of_a_module() -> None:
    """A renamed module does not stay in the list, and would count."""
    assert set(PRESENTATION) <= set(modules())
    assert list(PRESENTATION) == sorted(PRESENTATION)


def test_only_presentation_has_files_that_are_no_modules() -> None:
    """The digest is of modules; another file that shaped runs would not count."""
    for package in module.PACKAGES:
        for path in (ROOT / package).rglob("*"):
            if path.is_file() and path.suffix not in (".py", ".pyc") and path.name != "py.typed":
                parts = path.relative_to(ROOT).parent.parts
                assert is_below(".".join(parts), PRESENTATION), path


def test_other_modules_import_no_constant_of_presentation() -> None:
    """Such a constant could shape a run without being noticed, as it is no function that is called."""
    found = set()
    for name, tree in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and not is_below(name, PRESENTATION):
                inside = str(node.module)
                found |= {alias.name for alias in node.names if is_below(inside, PRESENTATION) and alias.name.isupper()}
    assert found == CONSTANTS_OF_PRESENTATION


Executed = Callable[[Mapping[str, Any]], Mapping[str, Any]]


def _of_clusters(folder: Path) -> list[tuple[Executed, Task]]:
    (folder / "small.toml").write_text(small_studies.SMALL)
    base = base_of_scenario(folder / "small.toml")
    design = small_studies.design_of(base, [MODIFIED], 1.5, days=0.1)
    calibration = CalibrationStudy(design, first_hours=0)
    samples = CompressionStudy(base, 1, 0)
    subject = Subject.read(folder / "small.toml", {"repeats": 1, "days": 0.05, "density": None, "traces": None})
    question = ask(subject.scenario, Searched.NODES, {})
    return [
        (run_simulation, design.tasks()[0]),
        (OverheadStudy.run, design.tasks()[0]),
        (calibration.run, calibration.tasks()[0]),
        (samples.run, samples.tasks()[0]),
        (run_at, subject.task(question, 10.0, "original", 0)),
    ]


def _of_other_studies(folder: Path) -> list[tuple[Executed, Task]]:
    peaks = PeakStudy([CellSource(region="region1", machines=2, days=2.0)])
    rows = np.random.default_rng(4).gamma(1.0, 8.0, (60, 288)).clip(0, 100).astype(int).tolist()
    table = pl.DataFrame({"day": ["20110303", "20110306"] * 30, "cpu_pct": rows})
    table.write_parquet(folder / "planetlab.parquet")
    period = int(read_samples(folder / "planetlab.parquet").period[0])
    sizes: dict[str, Any] = {"instance_tasks": 50, "realisations": 200, "samples": 1, "periods": (period,)}
    gaussian = GaussianStudy(traces=folder / "planetlab.parquet", resources=("cpu",), capacity=(400.0,), **sizes)
    groups: dict[str, Any] = {"figures": (PublishedFigure.DENSITIES,), "densities": (0.1,), "auto_seconds": 0.1}
    provisioning = ProvisioningStudy(base=write_base(folder / "base.csv"), instances=1, **groups)
    first = {task.arguments["kind"]: task for task in reversed(gaussian.tasks())}
    return [
        *((peaks.run, task) for task in peaks.tasks()),
        *((gaussian.run, task) for task in first.values()),
        (provisioning.run, provisioning.tasks()[0]),
    ]


@pytest.mark.parametrize("tasks_of", [_of_clusters, _of_other_studies])
def test_no_run_calls_presentation(tmp_path: Path, tasks_of: Callable[[Path], list[tuple[Executed, Task]]]) -> None:
    called: dict[str, set[str]] = {}

    def note(frame: FrameType, event: str, _: object) -> None:
        name = frame.f_globals.get("__name__", "")
        if event == "call" and frame.f_code.co_name != "<module>" and name.startswith("cluster."):
            called.setdefault(name, set()).add(frame.f_code.co_name)

    for run, task in tasks_of(tmp_path):
        called.clear()
        sys.setprofile(note)
        try:
            run(task.arguments)
        finally:
            sys.setprofile(None)
        assert called
        assert not {name: which for name, which in called.items() if is_below(name, PRESENTATION)}, task.key
