"""The page on installation: its table is of supported versions, and its names are those of the project."""

from __future__ import annotations

from cluster.cli.installation import DISTRIBUTION
from docs.tables import pythons
from plb import __version__
from plb.errors import EXTRAS
from tests.docs.pages import pages
from tests.sources import ROOT

PAGE = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")


def test_the_oldest_version_is_the_required_one() -> None:
    assert f'requires-python = ">={pythons.supported()[0]}"' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def test_the_page_names_wheel_and_extras() -> None:
    assert f"{DISTRIBUTION.replace('-', '_')}-{__version__}-py3-none-any.whl" in PAGE
    assert all(f"| `{extra}` |" in PAGE for extra in EXTRAS)


def test_no_page_installs_what_is_not_published() -> None:
    for page in pages():
        for line in (ROOT / page).read_text(encoding="utf-8").splitlines():
            words = line.partition("pip install")[2].replace("'", " ").replace('"', " ").split()
            assert not {word.partition("[")[0] for word in words} & {"plb", DISTRIBUTION}, f"{page}: {line}"
