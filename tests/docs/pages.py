"""The content of the documentation pages: links, and blocks of code with the comments about them.

A comment in front of a block states how it is checked. Without a comment, code and commands run, and the following
block of text is their output.

``<!-- not run: REASON -->``
    It does not run.
``<!-- excerpt of: FILE ... -->``
    It is in one of these files of the repository, which other tests run.
``<!-- file: FILE -->``
    It is the whole of this file, which belongs to the repository or is written by the commands of the page.
``<!-- saved as: FILE -->``
    The reader saves it under this name, and the commands of the page use it.
``<!-- setup: CODE -->``
    This code runs before it and is not shown.
``<!-- numbers vary -->``, ``<!-- numbers vary: the last of a line -->``
    Numbers in its output change from run to run: all of them, or the last one of each line.
``<!-- fails -->``
    The command ends in an error, and the page shows the message.
``<!-- slow -->``
    Only `make test-slow` runs it.
``<!-- table: NAME -->``, ``<!-- table: end -->``
    What is between them is written from measured figures, and a test of the page compares it.

Text below a heading ``Formula`` is a formula.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import attrs
from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).parents[2]
MARKERS = ("not run", "excerpt of", "file", "saved as", "setup", "numbers vary", "fails", "slow", "table")
VARIABLES = re.compile(r"^(?:[A-Z_]+=\S* )+")
COMMENT = re.compile(r"<!--\s*(.*?)\s*-->", re.DOTALL)
CONSOLE, TEXT = "console", ("", "text")
PROGRAMS = (
    *(f".venv/bin/{name}" for name in ("plb", "python", "pip", "pytest", "sphinx-build")),
    *("plb", "make", "pip", "python3", "git", "cd", "sed"),
)


@attrs.frozen
class Block:
    """A block of code or text."""

    page: str
    """Path of the page, relative to the root of the repository."""
    line: int
    """Its first line, numbered from 1."""
    language: str
    """The info string of the fence; ``"console"`` for commands."""
    content: str
    """Its text."""
    markers: Mapping[str, str]
    """The markers in comments in front of it, with their texts."""
    follows: bool
    """Whether only comments are between it and the block before."""
    around: str
    """The text of the paragraphs before and after it."""
    heading: str
    """The last heading before it."""
    section: int
    """The number of headings before it."""

    @property
    def place(self) -> str:
        """Page and line, as in the names of tests."""
        return f"{self.page}:{self.line}"

    @property
    def reason(self) -> str | None:
        """The reason for not running it, or None."""
        return self.markers.get("not run")

    @property
    def files(self) -> list[Path]:
        """The files that contain it as an excerpt."""
        return [ROOT / name for name in self.markers.get("excerpt of", "").split()]


def pages() -> list[str]:
    """Return all pages, relative to the root of the repository."""
    return [
        path.relative_to(ROOT).as_posix() for path in [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/**/*.md"))]
    ]


@cache
def tokens_of(page: str) -> list[Token]:
    return MarkdownIt("commonmark").enable("table").parse((ROOT / page).read_text())


@cache
def blocks_of(page: str) -> tuple[Block, ...]:
    """Return the blocks of a page, except directives for the site."""
    found: list[Block] = []
    markers: dict[str, str] = {}
    follows, before, heading, section = False, "", "", 0
    tokens = tokens_of(page)
    for index, token in enumerate(tokens):
        if token.type == "html_block":
            markers |= dict(marker_of(text) for text in COMMENT.findall(token.content))
        elif token.type in ("fence", "code_block"):
            if not token.info.startswith("{"):
                after = next((one.content for one in tokens[index + 1 :] if one.type == "inline"), "")
                where = {"follows": follows, "around": f"{before}\n{after}", "heading": heading, "section": section}
                found.append(_block(page, token, markers, **where))
            markers, follows = {}, True
        elif token.type == "heading_open":
            heading, section = tokens[index + 1].content, section + 1
        elif token.type == "inline":
            follows, before = False, token.content
    return tuple(found)


def all_blocks() -> list[Block]:
    return [block for page in pages() for block in blocks_of(page)]


def source_of(block: Block) -> Block | None:
    """Return the block whose output a block of text shows: the code directly above it, or the last commands before.

    Commands that do not run have their output in the same section.
    """
    before = [one for one in blocks_of(block.page) if one.line < block.line]
    if before and block.follows and before[-1].language == "python":
        return before[-1] if before[-1].reason is None else None
    commands = [one for one in before if one.language == CONSOLE]
    if not commands or (commands[-1].reason is not None and commands[-1].section != block.section):
        return None
    return commands[-1]


def inline_of(page: str) -> Iterator[Token]:
    """Yield links, images and code within the text of a page."""
    for token in tokens_of(page):
        yield from token.children or ()


def is_command(line: str) -> bool:
    """Return whether a line is a command and not output."""
    return VARIABLES.sub("", line.removeprefix("$ ")).split(" ")[0] in PROGRAMS


def one_line(text: str) -> str:
    """Return a text without line breaks, because pages wrap long lines."""
    return " ".join(text.split())


def _block(page: str, token: Token, markers: Mapping[str, str], **where: Any) -> Block:
    language = token.info.strip()
    if language in TEXT and any(map(is_command, token.content.splitlines())):
        language = CONSOLE
    line = (token.map or [0])[0] + 1
    return Block(page=page, line=line, language=language, content=token.content, markers=markers, **where)


def marker_of(comment: str) -> tuple[str, str]:
    """Return name and text of a comment; an unknown name is an error, because the comment would have no effect."""
    name, _, text = comment.partition(":")
    assert name in MARKERS, f"unknown comment {comment!r}; known are {', '.join(MARKERS)}"
    return name, text.strip() if name != "setup" else text.strip("\n ")
