"""The architecture page names existing modules, and its picture shows all packages."""

from __future__ import annotations

import re
from importlib import import_module

import pytest

from tests.docs.pages import ROOT

PAGE = (ROOT / "docs" / "architecture.md").read_text()
PICTURE = (ROOT / "docs" / "images" / "architecture.svg").read_text()
NAMES = sorted(set(re.findall(r"`((?:plb|cluster|workloads)(?:\.\w+)+)`", PAGE)))


@pytest.mark.parametrize("name", NAMES)
def test_a_module_of_the_page_exists(name: str) -> None:
    """If a module is renamed or moved, the page changes, too."""
    import_module(name)


@pytest.mark.parametrize("root", ["plb", "cluster", "workloads"])
def test_the_picture_has_every_package(root: str) -> None:
    """If a package is added, the picture changes, too."""
    shown = set(re.findall(r"\w+", PICTURE))
    packages = {path.parent.name for path in (ROOT / root).glob("*/__init__.py")}
    assert packages - shown == set()
