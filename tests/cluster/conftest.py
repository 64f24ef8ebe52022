"""Shared results for the tests of `plb explain`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.small_runs import TWO_CRASHES
from tests.command_line import plb


@pytest.fixture(scope="session")
def explained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the results directory of the small scenario with two crashes; tests must not change it."""
    folder = tmp_path_factory.mktemp("explained")
    (folder / "small.toml").write_text(TWO_CRASHES)
    run = plb("simulate", folder / "small.toml", "--out", folder / "out", "--quiet")
    assert run.exit_code == 0, run.output
    return folder / "out"
