"""Commands of the pages and their options exist, and commands that run print the shown output."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.docs.commands import (
    PLB,
    SHARED,
    Workspace,
    absent_files,
    commands_in,
    faults_of,
    needs_shared,
    simple_commands,
    unknown_targets,
)
from tests.docs.pages import CONSOLE, ROOT, TEXT, Block, all_blocks, blocks_of, inline_of, one_line, pages, source_of

CONSOLES = [block for block in all_blocks() if block.language == CONSOLE]
COMMANDS = [(block, command) for block in CONSOLES for command, _ in commands_in(block)]
NUMBER = re.compile(r"[\d.,]*\d")
LAST_NUMBER = re.compile(r"(?:[\d.,]*\d ± )?[\d.,]*\d(?=\D*$)", re.MULTILINE)
FRAME = re.compile(r"[─━═]+")


def masked(text: str, block: Block) -> str:
    """Return an output in one line, with lines of tables in one length and varying numbers masked."""
    text = FRAME.sub("─", text)
    if "numbers vary" in block.markers:
        text = (LAST_NUMBER if block.markers["numbers vary"] else NUMBER).sub("#", text)
    return one_line(text)


def runnable(page: str) -> list[Block]:
    """Return the blocks of commands of a page that run."""
    return [block for block in blocks_of(page) if block.language == CONSOLE and block.reason is None]


def run_blocks(blocks: list[Block], workspace: Workspace) -> None:
    """Run the blocks of one page in order; compare their output, and the files that the page shows.

    The page shows the output of a command directly below it, or later in separate blocks of text.
    """
    page = blocks_of(blocks[0].page)
    workspace.save(page)
    whole_output = ""
    for block in page:
        if block in blocks:
            for command, shown in commands_in(block):
                printed = workspace.run(command, fails="fails" in block.markers)
                assert masked(shown, block) in masked(printed, block), f"{block.place}: {command}"
                whole_output += printed
        elif block.language in TEXT and not block.markers and source_of(block) in blocks:
            assert masked(block.content, block) in masked(whole_output, block), block.place
    for block in page:
        path = workspace.folder / block.markers.get("file", "none")
        if path.is_file() and not (ROOT / block.markers["file"]).exists():
            assert block.content == path.read_text(), block.place


@pytest.mark.parametrize(
    ("block", "command"), COMMANDS, ids=[f"{block.place} {command}" for block, command in COMMANDS]
)
def test_command_exists(block: Block, command: str) -> None:
    """Subcommand and options belong to `plb`, targets to the Makefile, and files exist."""
    for words in simple_commands(command):
        if words[0] in PLB:
            assert faults_of(words[1:]) == []
        if words[0] == "make":
            assert unknown_targets(words[1:]) == []
        assert absent_files(words, block) == []


@pytest.mark.parametrize("page", pages())
def test_commands_in_the_text_exist(page: str) -> None:
    """These are pieces of code that begin with `plb`. Arguments may be omitted."""
    for token in inline_of(page):
        if token.type == "code_inline" and token.content.split(" ")[0] in PLB and " " in token.content:
            assert faults_of(shlex.split(token.content)[1:], whole=False) == [], token.content


@pytest.mark.parametrize("page", [page for page in pages() if any("slow" not in b.markers for b in runnable(page))])
def test_commands_print_the_shown_output(page: str, tmp_path: Path) -> None:
    blocks = [block for block in runnable(page) if "slow" not in block.markers]
    if any(map(needs_shared, blocks)) and not SHARED.exists():
        pytest.skip("the public traces are not here")
    run_blocks(blocks, Workspace(tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in pages() if any("slow" in b.markers for b in runnable(page))])
def test_slow_commands_print_the_shown_output(page: str, tmp_path: Path) -> None:
    blocks = runnable(page)
    if any(map(needs_shared, blocks)) and not SHARED.exists():
        pytest.skip("the public traces are not here")
    run_blocks(blocks, Workspace(tmp_path))
