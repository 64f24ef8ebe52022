"""Inputs that the tests of this directory share, and disks with little room."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.robustness.commands import write_inputs

settings.register_profile("long", deadline=None, max_examples=7000, suppress_health_check=list(HealthCheck))


@pytest.fixture(scope="session")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with an input for each command."""
    return write_inputs(tmp_path_factory.mktemp("inputs") / "all")


Disk = Callable[[str], Path]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    """Return what mounts a small disk with these options, where this process may."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = []

    def mount(options: str) -> Path:
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", place], capture_output=True, check=False)
        if done.returncode:
            pytest.skip("a disk cannot be mounted here")
        mounted.append(place)
        return place

    try:
        yield mount
    finally:
        for one in mounted:
            subprocess.run(["umount", one], check=True)
