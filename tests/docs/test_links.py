"""Links of README and documentation have targets, in the repository and in the site."""

from __future__ import annotations

import re
from functools import cache
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.docs.pages import ROOT, inline_of, pages, tokens_of

SCHEME = re.compile(r"[a-z]+:")


def links_of(page: str) -> list[str]:
    """Return the targets of links and images of a page within the repository."""
    found = [str(token.attrs.get("href") or token.attrs.get("src") or "") for token in inline_of(page)]
    return [link for link in found if link and not SCHEME.match(link)]


@cache
def anchors_of(path: Path) -> set[str]:
    """Return the anchors of a page: those of its headings, as in GitHub and in the site."""
    tokens = tokens_of(path.relative_to(ROOT).as_posix())
    headings = [after.content for token, after in pairwise(tokens) if token.type == "heading_open"]
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", pages())
def test_links_have_targets(page: str) -> None:
    dead = []
    for link in links_of(page):
        name, _, anchor = unquote(link).partition("#")
        target = (ROOT / page).parent / name if name else ROOT / page
        is_there = target.exists() and target.resolve().is_relative_to(ROOT)
        if not is_there or (anchor and anchor not in anchors_of(target.resolve())):
            dead.append(link)
    assert dead == []


def test_all_images_are_used() -> None:
    shown = {((ROOT / page).parent / link).resolve() for page in pages() for link in links_of(page)}
    assert sorted(set(ROOT.glob("docs/images/*")) - shown) == []


def test_every_page_is_linked_from_the_readme() -> None:
    """Links may be indirect. The first page of the site and its included pages are exceptions."""
    found, left = {"README.md"}, ["README.md"]
    while left:
        page = left.pop()
        paths = [((ROOT / page).parent / link.partition("#")[0]).resolve() for link in links_of(page)]
        linked = {path.relative_to(ROOT).as_posix() for path in paths if path.suffix == ".md"} - found
        found |= linked
        left += linked
    assert sorted(set(pages()) - found) == ["docs/changelog.md", "docs/contributing.md", "docs/index.md"]


@pytest.mark.parametrize("page", [page for page in pages() if page.startswith("docs/reference/")])
def test_a_generated_reference_says_where_else_its_facts_are(page: str) -> None:
    """A reader of the repository sees the directive only."""
    text = (ROOT / page).read_text()
    assert "```{" not in text or "In the repository" in text
