"""`plb report`."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from tests.command_line import plb


def report(*arguments: Any) -> Any:
    """Run the command."""
    return plb("report", *arguments)


def test_the_command_writes_the_page(calm: Path, tmp_path: Path):
    """The page is in the directory or in a given file. Only --force overwrites it, and --quiet prints nothing."""
    folder = Path(shutil.copytree(calm, tmp_path / "my results"))
    run = report(folder)
    assert (run.exit_code, run.stdout) == (0, f"Report: {folder / 'report.html'}\n")
    first = (folder / "report.html").read_text()
    run = report(folder)
    assert run.exit_code == 2
    assert "report.html: exists already; give another file, or --force to overwrite it" in run.stderr
    (folder / "report.html").write_text("old")
    run = report(folder, "--force", "--quiet")
    assert (run.exit_code, run.output) == (0, "")
    assert (folder / "report.html").read_text() == first
    assert report(folder, "--out", tmp_path / "other" / "page.html").exit_code == 0
    assert (tmp_path / "other" / "page.html").read_text() == first


def test_bad_directories_and_files_are_refused(tmp_path: Path, calm: Path):
    """The message names a missing directory, one without results, or a page that cannot be written."""
    for arguments, words in (
        ([tmp_path / "none"], "is not a results directory of plb simulate"),
        ([tmp_path], "there is no summary.json"),
        ([calm, "--out", tmp_path], "is a directory"),
    ):
        run = report(*arguments)
        assert run.exit_code == 2
        assert words in run.stderr


def test_the_page_does_not_overwrite_input_files(tmp_path: Path, calm: Path):
    """Even with --force, the page replaces neither the summary nor a table."""
    folder = Path(shutil.copytree(calm, tmp_path / "out"))
    for place in (folder / "summary.json", next(folder.glob("runs/*/moves.parquet"))):
        before = place.read_bytes()
        run = report(folder, "--out", place, "--force")
        assert run.exit_code == 2
        assert "give another file to write to" in run.stderr
        assert place.read_bytes() == before
