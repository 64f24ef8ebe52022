"""Shared results for the tests of `plb explain`, and code of runs that tests change."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import MappingProxyType

import pytest

from cluster.results.recorded_run import RecordedRun, read_run
from cluster.runs import code_digest
from tests.cluster.small_runs import SMALL, TWO_CRASHES
from tests.command_line import plb


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file of a small scenario."""
    path = tmp_path_factory.mktemp("scenario") / "small.toml"
    path.write_text(SMALL)
    return path


@pytest.fixture(scope="session")
def explained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the results directory of the small scenario with two crashes; tests must not change it."""
    folder = tmp_path_factory.mktemp("explained")
    (folder / "small.toml").write_text(TWO_CRASHES)
    run = plb("simulate", folder / "small.toml", "--out", folder / "out", "--quiet")
    assert run.exit_code == 0, run.output
    return folder / "out"


@pytest.fixture(scope="session")
def run(explained: Path) -> RecordedRun:
    """Return the first run of the small scenario with two crashes."""
    return read_run(explained)


@pytest.fixture
def change_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Return a function that changes the code of all runs of this process: the source of a package in place of plb."""
    folder = tmp_path / "code_of_runs"
    folder.mkdir()

    def forget() -> None:
        code_digest.code_digest.cache_clear()
        code_digest.code_of.cache_clear()

    def change(source: str) -> None:
        (folder / "__init__.py").write_text(source)
        forget()

    change("")
    monkeypatch.setattr(code_digest, "roots", lambda: MappingProxyType({"code_of_runs": folder}))
    yield change
    forget()
