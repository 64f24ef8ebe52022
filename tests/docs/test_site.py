"""The build of the site has no warning, and its reference is complete."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import attrs
import pytest

import plb
from cluster.scenario.scenario_file import SECTIONS
from cluster.scenario.workload_sections import Scaling
from cluster.simulation.run_tables import TABLES, columns_of
from tests.docs.pages import ROOT


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    call = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-d", str(folder / "trees")]
    run = subprocess.run([*call, str(ROOT / "docs"), str(folder / "html")], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return folder / "html"


def test_reference_has_every_key_of_a_scenario(site: Path) -> None:
    page = (site / "reference" / "scenario.html").read_text()
    names = [field.name for kind in (*SECTIONS.values(), Scaling) for field in attrs.fields(kind)]
    assert [name for name in names if f">{name}</span>" not in page] == []
    assert "<td><p></p></td>\n</tr>" not in page


def test_reference_has_every_column_and_every_public_name(site: Path) -> None:
    tables = (site / "reference" / "tables.html").read_text()
    assert [name for table in TABLES for name in columns_of(table) if f">{name}</span>" not in tables] == []
    names = (site / "reference" / "python.html").read_text()
    assert [name for name in plb.__all__ if f"<h2>{name}<" not in names] == []


def test_every_example_has_a_page(site: Path) -> None:
    """Links to examples stay within the site."""
    assert "sources/examples/gallery/churn.toml.html" in (site / "gallery.html").read_text()
    assert "density_end" in (site / "sources" / "examples" / "gallery" / "churn.toml.html").read_text()
