"""Atomic writing of files: the old or the new file exists, and other files are unchanged."""

from __future__ import annotations

from pathlib import Path

import pytest

from workloads.writing import in_one_piece


def write(path: Path, text: str) -> None:
    with in_one_piece(path) as partial:
        partial.write_text(text)


def test_a_link_keeps_its_target(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("before")
    link.symlink_to(target)
    write(link, "after")
    assert link.is_symlink()
    assert target.read_text() == "after"


def test_files_of_similar_names_are_unchanged(tmp_path: Path) -> None:
    mine = tmp_path / "figures.json.part"
    mine.write_text("mine")
    write(tmp_path / "figures.json", "{}")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "figures.json": "{}",
        "figures.json.part": "mine",
    }


def write_half(path: Path) -> None:
    with in_one_piece(path) as partial:
        partial.write_text("half")
        raise ZeroDivisionError


def test_a_failure_keeps_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    path.write_text("before")
    with pytest.raises(ZeroDivisionError):
        write_half(path)
    assert [file.name for file in tmp_path.iterdir()] == ["figures.json"]
    assert path.read_text() == "before"


def test_errors_name_the_requested_file(tmp_path: Path) -> None:
    """The message does not name the temporary file. In the test, a directory has the requested name."""
    path = tmp_path / "figures.json"
    path.mkdir()
    with pytest.raises(IsADirectoryError) as caught:
        write(path, "text")
    assert caught.value.filename == str(path)
