"""The checks of the pages detect changed code, options, numbers and comments."""

from __future__ import annotations

import attrs
import pytest

from tests.docs.commands import faults_of, simple_commands
from tests.docs.excerpts import missing
from tests.docs.pages import Block, all_blocks, is_command, marker_of
from tests.docs.test_commands import masked

SOURCE = '''
def total(self, nodes: list[int]) -> int:
    """Return the sum."""
    found = 0
    for node in nodes:
        print(node)
        found += node
    return found
'''


@pytest.mark.parametrize(
    ("code", "is_missing"),
    [
        ("def total(self, nodes):\n    found = 0\n    return found", False),
        ("for node in nodes:\n    found += node", False),
        ("found = 0", False),
        ("found = 1", True),
        ("for node in nodes:\n    found -= node", True),
        ("for node in found:\n    found += node", True),
        ("for node in nodes:\n    found += node\n    print(node)", True),
        ("def total(self, edges):\n    found = 0", True),
    ],
)
def test_excerpt_may_omit_but_not_change_statements(code: str, is_missing: bool) -> None:
    """Docstrings, types and statements may be missing. The others keep their order."""
    assert bool(missing(code, [SOURCE])) == is_missing


@pytest.mark.parametrize(
    ("command", "fault"),
    [
        ("simulate examples/quickstart.toml --density 1.8", None),
        ("simulate FILE", None),
        ("simulate", "1 arguments are needed"),
        ("simulate a.toml b.toml", "at most 1 arguments"),
        ("simulate a.toml --densty 1.8", "no option --densty"),
        ("simulat a.toml", "no command 'simulat'"),
        ("study annealing --quick", None),
        ("study", "0 arguments are needed"),
        ("study NAME --help", None),
        ("provision --list", None),
    ],
)
def test_wrong_commands_are_detected(command: str, fault: str | None) -> None:
    """They have unknown subcommands or options, or too many or too few arguments."""
    found = faults_of(command.split())
    assert found == [] if fault is None else found[0].startswith(fault)


def test_commands_of_a_line_are_separated() -> None:
    """Joined commands are several, and text after a number sign is a comment."""
    assert simple_commands("A_B=1 plb warmup") == [["plb", "warmup"]]
    assert simple_commands("make docs && plb warmup  # ahead") == [["make", "docs"], ["plb", "warmup"]]
    assert is_command("$ .venv/bin/plb warmup")
    assert is_command("NUMBA_DISABLE_JIT=1 .venv/bin/pytest tests")
    assert not is_command("plbx: wrong")


def block_with(**markers: str) -> Block:
    return attrs.evolve(all_blocks()[0], markers={name.replace("_", " "): one for name, one in markers.items()})


def test_numbers_count_unless_they_vary() -> None:
    """Either all numbers vary or the last one of each line. The length of lines of a table never counts."""
    one, other, later = "a 1 ━━━ 2\nb 3", "a 1 ━━ 2\nb 3", "a 1 ━ 9\nb 8"
    assert masked(one, block_with()) == masked(other, block_with()) != masked(later, block_with())
    last = block_with(numbers_vary="the last of a line")
    assert masked(one, last) == masked(later, last) != masked("a 4 ━ 2\nb 3", last)
    assert masked(one, block_with(numbers_vary="")) == masked("a 4 ━ 5\nb 6", block_with(numbers_vary=""))


def test_unknown_comment_is_an_error() -> None:
    """A misspelt comment would leave a block unchecked."""
    assert marker_of("not run: takes minutes") == ("not run", "takes minutes")
    with pytest.raises(AssertionError, match="not runn"):
        marker_of("not runn: takes minutes")
