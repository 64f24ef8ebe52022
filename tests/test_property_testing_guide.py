"""The guide to terms of one's own is true: its code is that of the examples, and it shows what they print."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from cluster.scenario_file import read_scenario
from plb.testing import Invariant
from plb.testing.invariants import OF_CONSTRAINTS, OF_TERMS

ROOT = Path(__file__).parent.parent
GUIDE = (ROOT / "docs" / "property-testing.md").read_text()
EXAMPLE = (ROOT / "examples" / "racks.py").read_text()
EXAMPLES = EXAMPLE + (ROOT / "examples" / "swift_racks.py").read_text()
OUTPUT = "".join((ROOT / "examples" / name).read_text() for name in ("racks.out", "swift_racks.out"))
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", GUIDE, re.DOTALL)
CODE = [text for kind, text in BLOCKS if kind == "python"]
SHOWN = [text for kind, text in BLOCKS if kind == "" and "proposals a second" not in text]
"""Speeds are those of one machine."""
TOML = [text for kind, text in BLOCKS if kind == "toml"]
ONLY_HERE = ("from plb.testing import machine_of",)
"""How the block begins that stands in a test file of the reader's."""


def words(text: str) -> str:
    """Return a text with single blanks: the guide breaks long lines."""
    return " ".join(text.split())


def bare(code: str) -> str:
    """Return code as the guide has it: without docstrings, types and empty lines."""
    without = re.sub(r'(^|\n) *""".*?"""', "", code, flags=re.DOTALL)
    return words(re.sub(r": (Configuration|Proposal|Problem|Solution|Int|int)\b|self, \*, | -> \w+(?=:)", "", without))


def test_there_is_something_to_compare():
    """Code, output and a scenario."""
    assert len(CODE) >= 5
    assert len(SHOWN) >= 2
    assert len(TOML) == 1


@pytest.mark.parametrize("code", [code for code in CODE if not code.startswith(ONLY_HERE)], ids=lambda code: code[:30])
def test_code_of_the_guide_stands_in_the_example(code):
    """Block by block of lines; settings are shortened to those that matter, and dots stand for what is left out."""
    for part in code.strip().split("\n\n"):
        lines = [line for line in part.splitlines() if not line.startswith("config = ") and line.strip() != "..."]
        assert bare("\n".join(lines)) in bare(EXAMPLES), part


@pytest.mark.parametrize("shown", SHOWN, ids=lambda text: text[:30])
def test_guide_shows_what_the_example_prints(shown):
    """Long lines are broken in the guide, and a command may stand above."""
    shown = re.sub(r"^python .*", "", shown)
    assert words(shown) in words(OUTPUT)


def test_table_of_invariants_is_whole():
    """It has each invariant that a term is asked for; that of constraints is named in their section."""
    table = set(re.findall(r"`([A-Z]+)`", GUIDE.split("Invariants, by name")[1].split("For a term that counts")[0]))
    assert table == {invariant.name for invariant in OF_TERMS}
    assert set(OF_CONSTRAINTS) - set(OF_TERMS) == {Invariant.AGREEMENT}
    assert "Invariant.AGREEMENT" in GUIDE


def test_scenario_of_the_guide_uses_the_term(tmp_path):
    """With the example beside it, it is read as it stands."""
    (tmp_path / "racks.py").write_text(EXAMPLE)
    path = tmp_path / "scenario.toml"
    path.write_text(TOML[0])
    assert read_scenario(path).engine["own_terms"] == tomllib.loads(TOML[0])["engine"]["own_terms"]
