"""The guides are complete, their names exist, and their figures are on the cited pages."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer

from cluster.cli.app import app
from cluster.cli.study import study_app
from cluster.scenario.scenario import BUILT_IN_POLICIES
from plb.policies import KNOWN
from plb.risk.estimators import Gaussian, HistoricalSimulation, MonteCarlo
from plb.risk.peaks import Maximum
from plb.risk.peaks.predictors import KINDS
from plb.settings.config import ANNEALING
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


def blocks_of(text: str) -> list[str]:
    """Return rows of tables, items of lists and paragraphs, without code and headings."""
    prose = re.sub(r"^(?:    |#|<!--).*$", "", re.sub(r"```.*?```", "", text, flags=re.DOTALL), flags=re.MULTILINE)
    return [block for block in re.split(r"\n\s*\n|\n(?=[|-])", prose) if block.strip() and not block.startswith("|--")]


def first_cells(text: str) -> set[str]:
    """Return the names in the first column of tables, without headings."""
    cells = re.findall(r"^\| (`[^|]*) \|", text, re.MULTILINE)
    return {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)} - {"--format"}


def bare(text: str) -> str:
    """Return a text without code, links and numbers of papers."""
    return re.sub(r"`[^`]*`|\[\d\]", "", LINK.sub("", text))


def citing() -> list[str]:
    """Return the texts that cite a page for figures."""
    rows = [block for block in blocks_of(section_of(STUDIES, "All of them")) if block.startswith("| `")]
    return [*blocks_of(CHOOSING.read_text()), *rows]


@pytest.mark.parametrize(
    "block", [block for block in citing() if NUMBER.search(bare(block))], ids=lambda block: block[:40]
)
def test_figures_are_on_a_cited_page(block):
    """Each number of a row, item or paragraph is on one of the pages that it links."""
    pages = [(DOCS / page).read_text() for page, _ in LINK.findall(block)]
    known = {number.lstrip("-") for page in pages for number in NUMBER.findall(page.replace("−", ""))}
    figures = [number.lstrip("-") for number in NUMBER.findall(bare(block).replace("−", ""))]
    assert [figure for figure in figures if figure not in known] == []


def test_figures_have_their_command():
    """Each row, item or paragraph of the first guide with a cited figure names a command."""
    cited = [block for block in blocks_of(CHOOSING.read_text()) if NUMBER.search(bare(block)) and LINK.search(block)]
    assert len(cited) > 30
    made = re.compile(r"`(?:plb|benchmarks/)")
    assert [block for block in cited if not made.search(block)] == []


def test_every_policy_has_a_row():
    assert first_cells(section_of(CHOOSING, "Policies")) == set(BUILT_IN_POLICIES)
    assert {policy.name for policy in KNOWN} <= set(BUILT_IN_POLICIES)
    assert f"`{ANNEALING}`" in section_of(CHOOSING, "Policies")


def test_every_estimator_has_a_row():
    """The names are those of the settings. The oracle is not an estimator."""
    kinds = {*KINDS, *(one.kind for one in (MonteCarlo, HistoricalSimulation, Gaussian, Maximum))} - {"oracle"}
    named = {name.removesuffix("(...;...)") for name in first_cells(section_of(CHOOSING, "Estimators"))}
    assert named == kinds


def test_every_study_has_a_row():
    """The table contains each study with its command. Each study but the choice of densities has a quick variant."""
    commands = first_cells(section_of(STUDIES, "All of them"))
    named = {command.split()[2] for command in commands if command.startswith("plb study ")}
    assert named == STUDY_NAMES
    quick = set(re.findall(r"plb study (\w+)", section_of(STUDIES, "Quick ones")))
    assert quick == STUDY_NAMES - {"densities"}


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
