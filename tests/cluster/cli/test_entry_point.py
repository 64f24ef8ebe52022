"""The entry point of `plb`: other modules with the names of its packages."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import plb_command
from cluster.console import BAD_INPUT, INTERRUPTED
from tests.sources import ROOT


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the entry point with a folder that is searched for modules before the installed packages."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (folder, ROOT)))}
    program = f"import sys; sys.path.append({str(ROOT)!r}); from plb_command import main; main()"
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", plb_command.PACKAGES)
@pytest.mark.parametrize("form", ["{}.py", "{}/__init__.py"])
def test_a_module_that_hides_a_package_is_named(tmp_path: Path, name: str, form: str):
    """It may be a file of the user or a package of another distribution. The exit code is that of bad input."""
    path = tmp_path / form.format(name)
    path.parent.mkdir(exist_ok=True)
    path.write_text("raise ValueError('is not loaded')\n")
    done = run(tmp_path, "--version")
    assert done.returncode == BAD_INPUT
    assert done.stderr.startswith(f"plb: {path} hides {ROOT / name}, because both are called '{name}'. Rename it")
    assert "Traceback" not in done.stderr


def test_a_folder_without_modules_hides_nothing(tmp_path: Path):
    """Python prefers a package, wherever it is."""
    (tmp_path / "cluster").mkdir()
    done = run(tmp_path, "--version")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("plb ")


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setattr(plb_command, "_place", lambda _: None)
    with pytest.raises(SystemExit):
        plb_command.main()
    assert "its package 'cluster' is missing" in capsys.readouterr().err


def test_the_command_is_this_entry_point():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["project"]["scripts"] == {"plb": "plb_command:main"}
    assert "plb_command.py" in project["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"]
    assert (plb_command.BAD_INPUT, plb_command.INTERRUPTED) == (BAD_INPUT, INTERRUPTED)
