"""The pages of the documentation as what is in them: blocks of code with what comments say of them, and links.

A comment in front of a block says how it is held to be true; without one, code and commands are run, and the block of
text that follows is what they print.

``<!-- not run: REASON -->``
    Nobody runs it.
``<!-- excerpt of: FILE ... -->``
    It stands in one of these files of the repository, which other tests run.
``<!-- file: FILE -->``
    It is the whole of this file, of the repository or written by the commands of the page.
``<!-- saved as: FILE -->``
    The reader saves it under this name; the commands of the page find it.
``<!-- setup: CODE -->``
    Code that runs before it and is not shown.
``<!-- numbers vary -->``, ``<!-- numbers vary: the last of a line -->``
    What it prints has numbers that are others each time: all of them, or the last one of each line.
``<!-- fails -->``
    The command ends in an error, whose message is shown.
``<!-- slow -->``
    It is run by `make test-slow` only.

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
MARKERS = ("not run", "excerpt of", "file", "saved as", "setup", "numbers vary", "fails", "slow")
VARIABLES = re.compile(r"^(?:[A-Z_]+=\S* )+")
COMMENT = re.compile(r"<!--\s*(.*?)\s*-->", re.DOTALL)
CONSOLE, TEXT = "console", ("", "text")
PROGRAMS = (
    *(f".venv/bin/{name}" for name in ("plb", "python", "pip", "pytest", "sphinx-build")),
    *("plb", "make", "pip", "python3", "git", "cd", "sed"),
)


@attrs.frozen
class Block:
    """A block of code or text.

    Parameters
    ----------
    page
        The page, from the root of the repository.
    line
        Its first line, from 1.
    language
        What the fence says; ``"console"`` where commands stand in it.
    content
        Its text.
    markers
        What comments in front of it say.
    follows
        Whether nothing but comments stands between it and the block before.
    around
        The text of the paragraphs before and after it.
    heading
        The last heading before it.
    section
        The number of headings before it.
    """

    page: str
    line: int
    language: str
    content: str
    markers: Mapping[str, str]
    follows: bool
    around: str
    heading: str
    section: int

    @property
    def place(self) -> str:
        """Page and line, as names of tests have it."""
        return f"{self.page}:{self.line}"

    @property
    def reason(self) -> str | None:
        """Why nobody runs it, or None."""
        return self.markers.get("not run")

    @property
    def files(self) -> list[Path]:
        """The files of which it is an excerpt."""
        return [ROOT / name for name in self.markers.get("excerpt of", "").split()]


def pages() -> list[str]:
    """Return all pages, from the root of the repository."""
    return [
        path.relative_to(ROOT).as_posix() for path in [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/**/*.md"))]
    ]


@cache
def tokens_of(page: str) -> list[Token]:
    """Return the parts of a page."""
    return MarkdownIt("commonmark").enable("table").parse((ROOT / page).read_text())


@cache
def blocks_of(page: str) -> tuple[Block, ...]:
    """Return the blocks of a page, directives for the site aside."""
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
    """Return the blocks of all pages."""
    return [block for page in pages() for block in blocks_of(page)]


def source_of(block: Block) -> Block | None:
    """Return the block that prints what stands in a block of text: code right above it, or the last commands before.

    Commands that nobody runs print what stands in their own section.
    """
    before = [one for one in blocks_of(block.page) if one.line < block.line]
    if before and block.follows and before[-1].language == "python":
        return before[-1] if before[-1].reason is None else None
    commands = [one for one in before if one.language == CONSOLE]
    if not commands or (commands[-1].reason is not None and commands[-1].section != block.section):
        return None
    return commands[-1]


def inline_of(page: str) -> Iterator[Token]:
    """Yield links, images and pieces of code within the text of a page."""
    for token in tokens_of(page):
        yield from token.children or ()


def is_command(line: str) -> bool:
    """Tell whether a line is a command and not what one prints."""
    return VARIABLES.sub("", line.removeprefix("$ ")).split(" ")[0] in PROGRAMS


def one_line(text: str) -> str:
    """Return a text without its line breaks: pages break long lines."""
    return " ".join(text.split())


def _block(page: str, token: Token, markers: Mapping[str, str], **where: Any) -> Block:
    language = token.info.strip()
    if language in TEXT and any(map(is_command, token.content.splitlines())):
        language = CONSOLE
    line = (token.map or [0])[0] + 1
    return Block(page=page, line=line, language=language, content=token.content, markers=markers, **where)


def marker_of(comment: str) -> tuple[str, str]:
    """Return name and text of a comment; an unknown one is an error, as it would be passed over."""
    name, _, text = comment.partition(":")
    assert name in MARKERS, f"unknown comment {comment!r}; known are {', '.join(MARKERS)}"
    return name, text.strip() if name != "setup" else text.strip("\n ")
