"""Blocks of the pages are correct: code prints the shown output, and excerpts are in their files."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

import pytest

from cluster.learning.config import TOP_LEVEL as OF_LEARNING
from cluster.scenario.scenario_file import scenario_from
from tests.compiler.processes import Server
from tests.docs.commands import Workspace, make_a_plan
from tests.docs.excerpts import missing
from tests.docs.pages import ROOT, TEXT, Block, all_blocks, blocks_of, one_line, pages, source_of

SEPARATOR = "=" * 8
FORMULA = "Formula"
BLOCKS = all_blocks()


def place(block: Block) -> str:
    return block.place


def is_run(block: Block) -> bool:
    """Return whether a block of code runs with its page."""
    return block.language == "python" and not block.markers.keys() & {"not run", "excerpt of", "saved as"}


def printed_by(page: str) -> list[tuple[Block, str]]:
    """Return the blocks of a page that run, each with the shown output."""
    found = []
    blocks = blocks_of(page)
    for block, after in zip_longest(blocks, blocks[1:]):
        if is_run(block):
            has_output = after is not None and after.follows and after.language in TEXT and not after.markers
            found.append((block, after.content if has_output else ""))
    return found


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Return a server of processes in which the engine is loaded, as it takes longer than most pages."""
    with Server(tmp_path_factory.mktemp("server"), f"{make_a_plan.__module__}:make_a_plan") as made:
        yield made


@pytest.mark.parametrize("page", [page for page in pages() if printed_by(page)])
def test_code_prints_the_shown_output(page: str, tmp_path: Path, server: Server) -> None:
    """The blocks of a page are one program, from top to bottom."""
    blocks = printed_by(page)
    code = [f"{block.markers.get('setup', '')}\n{block.content}" for block, _ in blocks]
    program = f"\nprint({SEPARATOR!r})\n".join(code)
    output = Workspace(tmp_path).run_python(program, server).split(f"{SEPARATOR}\n")
    for (block, shown), printed in zip(blocks, output, strict=True):
        assert one_line(printed) == one_line(shown), block.place


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.files], ids=place)
def test_excerpt_is_in_its_file(block: Block) -> None:
    """Python is compared by statement, a scenario by line, and the output of an example by word."""
    sources = [path.read_text() for path in block.files]
    if block.language == "python":
        assert missing(block.content, sources) == []
    elif block.language == "toml":
        known = {line.split("#")[0].strip() for source in sources for line in source.splitlines()}
        assert {line.split("#")[0].strip() for line in block.content.splitlines()} - known <= {""}
    else:
        assert any(one_line(block.content) in one_line(source) for source in sources)


@pytest.mark.parametrize(
    "block",
    [block for block in BLOCKS if block.language == "toml" and not block.markers.keys() & {"not run", "excerpt of"}],
    ids=place,
)
def test_scenario_is_valid(block: Block) -> None:
    """It is in the folder of the examples, from which it may import. Another test checks learning files."""
    data = tomllib.loads(block.content)
    assert set(data) <= set(OF_LEARNING) or scenario_from(data, folder=ROOT / "examples")


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.language == "json"], ids=place)
def test_json_is_valid(block: Block) -> None:
    json.loads(block.content)


@pytest.mark.parametrize("block", [block for block in BLOCKS if "file" in block.markers], ids=place)
def test_shown_file_is_complete(block: Block) -> None:
    """The file belongs to the repository. A file that commands write is compared after they have run."""
    path = ROOT / block.markers["file"]
    if path.exists():
        assert block.content == path.read_text()


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.reason is not None], ids=place)
def test_block_that_is_not_run_has_a_reason(block: Block) -> None:
    """The reason is short. If it is time, the page states the duration."""
    assert len(block.reason.split()) > 1
    if block.reason.startswith("takes"):
        assert re.search(r"minute|hour", f"{block.content} {block.around}"), "state the duration near the block"


@pytest.mark.parametrize(
    "block", [block for block in BLOCKS if block.language in TEXT and not block.markers], ids=place
)
def test_text_has_a_source(block: Block) -> None:
    """It is the output of code or commands above it, a formula, or its comment names the source."""
    is_known = block.heading == FORMULA or source_of(block) is not None
    assert is_known, "put <!-- excerpt of: FILE -->, <!-- file: FILE --> or <!-- not run: REASON --> above it"
