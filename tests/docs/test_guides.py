"""The guides are complete, and their names exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer

from cluster.cli.app import app
from cluster.cli.study import study_app
from tests.docs.pages import ROOT
from tests.docs.shown_changes import section_of
from workloads.readers import READERS

DOCS = ROOT / "docs"
CHOOSING, DATA, STUDIES = (DOCS / f"{name}.md" for name in ("choosing", "data", "repeating-studies"))
EXTENDING = sorted((DOCS / "extending").glob("*.md"))
GUIDES = [CHOOSING, DATA, STUDIES, DOCS / "other-systems.md", *EXTENDING]
COMMANDS = typer.main.get_command(app).commands
STUDY_NAMES = set(typer.main.get_command(study_app).commands)
LINK = re.compile(r"\[[^\]]*\]\(([^)#]*)(?:#([^)]*))?\)")
NUMBER = re.compile(r"(?<![\w.,-])-?\d(?:[\d,.]*\d)?")


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def first_cells(text: str) -> set[str]:
    """Return the names in the first column of tables, without headings."""
    cells = re.findall(r"^\| (`[^|]*) \|", text, re.MULTILINE)
    return {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)} - {"--format"}


def bare(text: str) -> str:
    """Return a text without code, links and numbers of papers."""
    return re.sub(r"`[^`]*`|\[\d\]", "", LINK.sub("", text))


def test_the_guide_to_choosing_is_short():
    """One table of at most ten rows with short cells; figures are on the linked pages."""
    rows = [line for line in CHOOSING.read_text().splitlines() if line.startswith("| ")][1:]
    assert len(rows) <= 10
    assert all(len(cell.split()) <= 20 for row in rows for cell in row.split("|"))
    assert all(LINK.search(row) and not NUMBER.search(bare(row)) for row in rows)


def test_every_study_has_a_row():
    """Also a quick one, except the choice of densities; ``plb study all`` runs them and is none itself."""
    commands = first_cells(section_of(STUDIES, "All of them"))
    named = {command.split()[2] for command in commands if command.startswith("plb study ")}
    assert named == STUDY_NAMES - {"all"}
    quick = set(re.findall(r"plb study (\w+)", section_of(STUDIES, "Quick ones")))
    assert quick == STUDY_NAMES - {"all", "densities"}


def test_every_reader_has_a_row_in_both_tables():
    """One table lists what is read, the other what is missing."""
    assert first_cells(section_of(DATA, "Public traces")) == set(READERS)
    formats = section_of(DOCS / "traces.md", "Public traces")
    assert set(READERS) <= first_cells(formats)


@pytest.mark.parametrize("page", [*GUIDES, ROOT / "CHANGELOG.md"], ids=name_of)
def test_commands_exist(page):
    """Every command that a page names after `plb`, and every study after `plb study`, exists."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    named = re.findall(r"(?:`|\bin/)plb ([a-z]+)(?: ([a-z]+))?", text)
    assert {name for name, _ in named} - set(COMMANDS) == set()
    assert {study for name, study in named if name == "study" and study} <= STUDY_NAMES


@pytest.mark.parametrize("page", EXTENDING, ids=name_of)
def test_files_to_change_exist(page):
    """They are all files on a page except the one that it adds."""
    new = ("least_crowded", "campus", "repetitions")
    named = set(re.findall(r"`((?:plb|workloads|cluster|tests|docs|examples)/[\w/.-]+\.\w+)`", page.read_text()))
    assert named
    assert [name for name in sorted(named) if not (ROOT / name).exists() and not any(one in name for one in new)] == []
