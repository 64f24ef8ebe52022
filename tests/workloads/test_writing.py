"""Files are written in one piece: the former one or the new one is there, and nothing of anyone else's is touched."""

from __future__ import annotations

from pathlib import Path

import pytest

from workloads.writing import in_one_piece


def write(path: Path, text: str) -> None:
    """Write a text in one piece."""
    with in_one_piece(path) as partial:
        partial.write_text(text)


def test_a_link_keeps_leading_where_it_led(tmp_path: Path) -> None:
    """What it leads to is written."""
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("before")
    link.symlink_to(target)
    write(link, "after")
    assert link.is_symlink()
    assert target.read_text() == "after"


def test_files_of_similar_names_stay(tmp_path: Path) -> None:
    """Also one that looks like a half of the file."""
    mine = tmp_path / "figures.json.part"
    mine.write_text("mine")
    write(tmp_path / "figures.json", "{}")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "figures.json": "{}",
        "figures.json.part": "mine",
    }


def write_half(path: Path) -> None:
    """Fail in the middle of a file."""
    with in_one_piece(path) as partial:
        partial.write_text("half")
        raise ZeroDivisionError


def test_what_fails_leaves_the_former_file(tmp_path: Path) -> None:
    """And nothing beside it."""
    path = tmp_path / "figures.json"
    path.write_text("before")
    with pytest.raises(ZeroDivisionError):
        write_half(path)
    assert [one.name for one in tmp_path.iterdir()] == ["figures.json"]
    assert path.read_text() == "before"


def test_errors_name_the_file_that_was_asked_for(tmp_path: Path) -> None:
    """Not the one that is written meanwhile: here a directory stands in its place."""
    path = tmp_path / "figures.json"
    path.mkdir()
    with pytest.raises(IsADirectoryError) as caught:
        write(path, "text")
    assert caught.value.filename == str(path)
