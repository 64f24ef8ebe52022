"""What stands in blocks of the pages is true: code prints what is shown, excerpts stand in files."""

from __future__ import annotations

import json
import re
import tomllib
from itertools import zip_longest
from pathlib import Path

import pytest

from cluster.learning.config import TOP_LEVEL as OF_LEARNING
from cluster.scenario.scenario_file import scenario_from
from tests.docs.commands import Workspace
from tests.docs.excerpts import missing
from tests.docs.pages import ROOT, TEXT, Block, all_blocks, blocks_of, one_line, pages, source_of

SEPARATOR = "=" * 8
FORMULA = "Formula"
BLOCKS = all_blocks()


def place(block: Block) -> str:
    """Return the name of the test of a block."""
    return block.place


def is_run(block: Block) -> bool:
    """Tell whether a block of code is run with its page."""
    return block.language == "python" and not block.markers.keys() & {"not run", "excerpt of", "saved as"}


def printed_by(page: str) -> list[tuple[Block, str]]:
    """Return the blocks of a page that are run, with what the page says that they print."""
    found = []
    blocks = blocks_of(page)
    for block, after in zip_longest(blocks, blocks[1:]):
        if is_run(block):
            has_output = after is not None and after.follows and after.language in TEXT and not after.markers
            found.append((block, after.content if has_output else ""))
    return found


@pytest.mark.parametrize("page", [page for page in pages() if printed_by(page)])
def test_code_prints_what_stands_below_it(page: str, tmp_path: Path) -> None:
    """The blocks of a page are one program, from top to bottom."""
    blocks = printed_by(page)
    code = [f"{block.markers.get('setup', '')}\n{block.content}" for block, _ in blocks]
    output = Workspace(tmp_path).run_python(f"\nprint({SEPARATOR!r})\n".join(code)).split(f"{SEPARATOR}\n")
    for (block, shown), printed in zip(blocks, output, strict=True):
        assert one_line(printed) == one_line(shown), block.place


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.files], ids=place)
def test_excerpt_stands_in_its_file(block: Block) -> None:
    """Statement by statement, line by line of a scenario, and word by word of what an example prints."""
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
def test_scenario_is_read(block: Block) -> None:
    """Beside the examples, so that it may import them; the keys of a learning file are another test's."""
    data = tomllib.loads(block.content)
    assert set(data) <= set(OF_LEARNING) or scenario_from(data, folder=ROOT / "examples")


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.language == "json"], ids=place)
def test_json_is_json(block: Block) -> None:
    """Whatever is shown as JSON can be read."""
    json.loads(block.content)


@pytest.mark.parametrize("block", [block for block in BLOCKS if "file" in block.markers], ids=place)
def test_file_is_shown_as_it_is(block: Block) -> None:
    """A file of the repository; one that commands write is compared after they have run."""
    path = ROOT / block.markers["file"]
    if path.exists():
        assert block.content == path.read_text()


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.reason is not None], ids=place)
def test_block_that_is_not_run_has_a_reason(block: Block) -> None:
    """In a few words; where time is the reason, the page says how long it takes."""
    assert len(block.reason.split()) > 1
    if block.reason.startswith("takes"):
        assert re.search(r"minute|hour", f"{block.content} {block.around}"), "say how long it takes, beside it"


@pytest.mark.parametrize(
    "block", [block for block in BLOCKS if block.language in TEXT and not block.markers], ids=place
)
def test_text_belongs_to_something(block: Block) -> None:
    """It is what code or commands above it print, or a formula, or a comment says what it is."""
    is_known = block.heading == FORMULA or source_of(block) is not None
    assert is_known, "put <!-- excerpt of: FILE -->, <!-- file: FILE --> or <!-- not run: REASON --> above it"
