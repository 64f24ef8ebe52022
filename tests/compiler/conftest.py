"""Processes and disks for the tests of the compiler."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.compiler.processes import Server
from tests.disks import disk

__all__ = ["disk", "processes"]


@pytest.fixture(scope="session")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Return a server of processes in which Numba is loaded and plb is not."""
    with Server(tmp_path_factory.mktemp("processes")) as server:
        yield server
