"""The guide to provisioning is true: its code and output are those of the example, and what it names exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import plb.provisioning
import workloads.provisioning
from plb.provisioning.names import parse_algorithm

ROOT = Path(__file__).parent.parent
GUIDE = (ROOT / "docs" / "provisioning.md").read_text()
EXAMPLE = ROOT / "examples" / "provisioning.py"
BLOCKS = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
OUTPUTS = re.findall(r"```\n(at least.*?)```", GUIDE, re.DOTALL)
ALGORITHMS = re.findall(r"`((?:FF|BF|WF|FFD|BFD|WFD|NCD|SpreadWFD|Match|Medea|LRASched)(?:-[\w.]+)*)`", GUIDE)


def bare(code: str) -> str:
    """Return code without indentation."""
    return "\n".join(line.strip() for line in code.splitlines() if line.strip())


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_code_of_the_guide_is_that_of_the_example(block: str) -> None:
    """Line by line."""
    assert bare(block) in bare(EXAMPLE.read_text())


def test_output_of_the_guide_is_that_of_the_example() -> None:
    """All of it."""
    assert [EXAMPLE.with_suffix(".out").read_text()] == OUTPUTS


def test_algorithms_of_the_guide_exist() -> None:
    """By the names that the command takes."""
    assert len(set(ALGORITHMS)) > 12
    for name in ALGORITHMS:
        assert parse_algorithm(name).name == name


def test_names_of_the_guide_exist() -> None:
    """Classes and functions."""
    assert "`ProvisioningPlan.faults`" in GUIDE
    assert "`build_instance`" in GUIDE
    for name in ("Instance", "ProvisioningPlan", "provision"):
        assert f"`{name}" in GUIDE
        assert hasattr(plb.provisioning, name)
    assert hasattr(workloads.provisioning, "build_instance")


def test_images_of_the_guide_exist() -> None:
    """Every plot that it shows."""
    images = re.findall(r"\]\((images/[^)]+)\)", GUIDE)
    assert images
    for image in images:
        assert (ROOT / "docs" / image).is_file()


@pytest.mark.parametrize("page", ["README.md", "docs/studies.md"])
def test_other_pages_lead_to_the_guide(page: str) -> None:
    """By a link."""
    assert "provisioning.md)" in (ROOT / page).read_text()
