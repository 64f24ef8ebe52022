"""What an installation has: examples, extras, its version; what an import loads; standard output for files."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import polars as pl
import pytest
import typer

import plb as engine
from cluster.cli import installation
from cluster.cli.installation import DISTRIBUTION, examples, listed, read_by
from cluster.console import BAD_INPUT, FAILED, clear_errors
from cluster.scenario.scenario_file import inputs_of, read_scenario
from plb.errors import EXTRAS, MissingExtraError, extra_of, project_of
from tests.command_line import plb
from tests.sources import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
NAMES = [path.relative_to(examples()).as_posix() for path in listed(examples())]
SHARED = {"learning/bitbrains.toml", "learning/bootstrapped.toml"}
"""Examples whose traces are not part of the project."""
SAMPLES = ROOT / "examples" / "task_samples.csv"
HEAVY = ("matplotlib", "typer", "hypothesis", "simpy", "polars")
PLAN = """
import runpy, sys
runpy.run_path(sys.argv[1], run_name="__main__")
"""
COMMANDS = """
import cluster.cli.app
from cluster.console import messages
with messages().status(""):
    pass
"""
LOADED = "\nprint([name for name in {} if name in sys.modules], file=sys.stderr)\n"


def loaded(program: str, names: tuple[str, ...], *arguments: str) -> str:
    """Return which modules a new process has loaded at the end of a program."""
    command = [sys.executable, "-c", f"import sys\n{program}{LOADED.format(names)}", *arguments]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return run.stderr.splitlines()[-1]


# examples


@pytest.mark.parametrize("name", NAMES)
def test_an_example_is_written_as_it_is(name: str, tmp_path: Path) -> None:
    run = plb("example", name, "--out", tmp_path)
    assert run.exit_code == 0, run.output
    copies = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert copies
    for copy in copies:
        assert copy.read_bytes() == (examples() / copy.relative_to(tmp_path)).read_bytes()


SCENARIOS = [name for name in NAMES if name.endswith(".toml") and "[run]" in (examples() / name).read_text()]


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_comes_with_the_files_that_it_reads(name: str, tmp_path: Path) -> None:
    run = plb("example", name.removesuffix(".toml"), "--out", tmp_path)
    assert f"plb simulate {tmp_path / name}" in run.stdout
    assert all(path.exists() for path in inputs_of(read_scenario(tmp_path / name)) if path.is_relative_to(tmp_path))


def test_a_notebook_comes_with_the_scenario_that_it_runs(tmp_path: Path) -> None:
    assert plb("example", "notebook", "--out", tmp_path).exit_code == 0
    assert {path.name for path in tmp_path.iterdir()} == {"notebook.ipynb", "quickstart.toml"}


def test_every_example_is_listed_and_has_a_purpose() -> None:
    lines = plb("example").stdout.splitlines()
    assert [line.split()[0] for line in lines] == NAMES
    assert all(len(line.split()) > 1 for line in lines)
    reached = {file for path in listed(examples()) for file in read_by(examples(), path)}
    files = {path for path in examples().rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    assert {path.name for path in files - reached if path.suffix != ".out"} <= {"deepplace.pt"}


def test_an_unknown_example_gets_the_nearest_name(tmp_path: Path) -> None:
    run = plb("example", "quickstar", "--out", tmp_path)
    assert run.exit_code == BAD_INPUT
    assert "unknown example 'quickstar'; did you mean 'quickstart'?" in run.stderr
    assert plb("example", "../tests", "--out", tmp_path).exit_code == BAD_INPUT
    assert not [*tmp_path.iterdir()]


def test_a_file_of_the_user_is_not_overwritten(tmp_path: Path) -> None:
    own = tmp_path / "own_traces.toml"
    own.write_text("mine")
    assert plb("example", "own_traces", "--out", tmp_path).exit_code == BAD_INPUT
    assert [*tmp_path.iterdir()] == [own]
    assert plb("example", "own_traces", "--out", tmp_path, "--force").exit_code == 0
    assert own.read_bytes() == (examples() / "own_traces.toml").read_bytes()


def test_a_wheel_has_the_examples_where_the_command_looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (name,) = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["sources"].values()
    folder = tmp_path / name
    folder.mkdir()
    monkeypatch.setattr(installation, "__file__", str(tmp_path / "cluster" / "cli" / "installation.py"))
    assert examples() == folder


# version, extras, doctor


def test_the_version_is_stated_once() -> None:
    assert PROJECT["project"]["name"] == DISTRIBUTION
    assert PROJECT["project"]["dynamic"] == ["version"]
    assert PROJECT["tool"]["hatch"]["version"] == {"path": "plb/__init__.py"}
    run = subprocess.run(
        [sys.executable, "-m", "plb", "--version"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert run.stdout == plb("--version").stdout == f"plb {engine.__version__}\n"


def test_extras_are_those_of_the_project() -> None:
    stated = PROJECT["project"]["optional-dependencies"]
    assert {name: tuple(stated[name]) for name in EXTRAS} == EXTRAS
    assert set(stated) - set(EXTRAS) == {"dev", "examples"}


@pytest.mark.parametrize(
    ("module", "extra"), [("torch.nn", "learning"), ("prometheus_client.core", "service"), ("numpy", None)]
)
def test_a_module_belongs_to_an_extra(module: str, extra: str | None) -> None:
    assert extra_of(module) == extra


def test_a_command_without_its_extra_says_which(capsys: pytest.CaptureFixture[str]) -> None:
    @clear_errors
    def command() -> None:
        raise ModuleNotFoundError("No module named 'msgspec'", name="msgspec")

    with pytest.raises(typer.Exit) as ended:
        command()
    assert ended.value.exit_code == BAD_INPUT
    assert capsys.readouterr().err == f"plb: {MissingExtraError('msgspec', 'service')}\n"


def test_a_missing_module_of_no_extra_is_no_message() -> None:
    @clear_errors
    def command() -> None:
        raise ModuleNotFoundError("No module named 'own'", name="own")

    with pytest.raises(ModuleNotFoundError):
        command()


def test_doctor_states_what_is_there_and_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    absent = {project_of(package) for package in EXTRAS["service"]} | {"simpy"}

    def versions(*names: str) -> dict[str, str]:
        return {name: "not installed" if name in absent else "1.0" for name in names}

    monkeypatch.setattr("cluster.results.writing.versions", versions)
    monkeypatch.setenv("PLB_CACHE_DIR", str(tmp_path / "kernels"))
    run = plb("doctor")
    lines = dict(line.split("  ", 1) for line in run.stdout.splitlines())
    assert run.exit_code == FAILED, "simpy is needed by all"
    assert lines["simpy"].strip() == "not installed"
    assert lines["extra learning"].strip() == "installed"
    assert lines["extra service"].strip().startswith("missing; pip install 'httpx>=")
    assert f"{tmp_path / 'kernels'}: 0 kernels, 0 MB, writable" in run.stdout
    absent.clear()
    assert plb("doctor").exit_code == 0


def test_a_shell_can_complete() -> None:
    help_text = plb("--help").stdout
    assert "--install-completion" in help_text
    assert "--show-completion" in help_text


# what is loaded


def test_the_import_and_a_plan_load_no_library_of_the_simulator() -> None:
    assert loaded(PLAN, HEAVY, str(ROOT / "examples" / "embedding.py")) == "[]"


def test_a_command_shows_progress_before_it_loads_the_engine() -> None:
    assert loaded(COMMANDS, ("numba", "numpy", "scipy", "polars", "simpy", "matplotlib", "hypothesis")) == "[]"


# standard output


def test_a_file_called_dash_is_standard_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All else is printed to standard error."""
    monkeypatch.chdir(tmp_path)
    run = plb("predict", SAMPLES, "--out", "-")
    assert run.exit_code == 0
    assert pl.read_csv(run.stdout.encode()).columns[:2] == ["machine", "time_s"]
    assert "peak predictions" in run.stderr
    run = plb("predict", SAMPLES, "--out", "own.csv", "--json", "-")
    assert json.loads(run.stdout)["rows"] == len(pl.read_csv("own.csv"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["own.csv"]
    assert plb("example", "quickstart", "--out", "-").stdout == (ROOT / "examples" / "quickstart.toml").read_text()


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["predict", SAMPLES, "--out", "-", "--json", "-"], "-: is given twice"),
        (["simulate", ROOT / "examples" / "quickstart.toml", "--out", "-"], "-: standard output is no directory"),
        (["predict", "-"], "-: found no such file"),
        (["example", "kubernetes", "--out", "-"], "is a directory; give --out DIR"),
    ],
)
def test_standard_output_takes_one_file(
    arguments: list[object], reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = plb(*arguments)
    assert run.exit_code == BAD_INPUT
    assert reason in run.stderr
    assert run.stdout == ""
