"""The guide to GPA is true: its code and output are those of the example, and what it names exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import plb.risk.gaussian

ROOT = Path(__file__).parent.parent
GUIDE = (ROOT / "docs" / "gaussian.md").read_text()
EXAMPLE = ROOT / "examples" / "colocation.py"
BLOCKS = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
OUTPUTS = re.findall(r"```\n((?:av|the next).*?)```", GUIDE, re.DOTALL)


def bare(code: str) -> str:
    """Return code without indentation."""
    return "\n".join(line.strip() for line in code.splitlines() if line.strip())


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_code_of_the_guide_is_that_of_the_example(block):
    """Line by line."""
    assert bare(block) in bare(EXAMPLE.read_text())


def test_outputs_of_the_guide_are_that_of_the_example():
    """All of it, in its order."""
    assert len(OUTPUTS) == 2
    assert "".join(OUTPUTS) == EXAMPLE.with_suffix(".out").read_text()


def test_names_of_the_guide_exist():
    """Tests, classes and functions."""
    named = set(re.findall(r"`([A-Z]\w+)(?:\(|\.|`)", GUIDE)) | {"pack", "observe"}
    kept = named - {"FitBin"}
    assert {"GPA", "Cantelli", "MeanTimes", "Percentile", "TaskStatistics", "Total", "FitTest", "Packing"} <= kept
    for name in kept:
        assert hasattr(plb.risk.gaussian, name), name


def test_images_of_the_guide_exist():
    """Every plot that it shows."""
    images = re.findall(r"\]\((images/[^)]+)\)", GUIDE)
    assert images
    for image in images:
        assert (ROOT / "docs" / image).is_file()
