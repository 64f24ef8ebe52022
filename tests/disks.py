"""Small or read-only disks, for tests of system errors."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

Disk = Callable[[str], Path]


def fill(disk: Path) -> None:
    """Fill a disk completely."""
    with suppress(OSError), (disk / "ballast").open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 4096)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    """Return a function that mounts a small disk, or mounts it again with other options; skip without permission."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = []

    def mount(options: str) -> Path:
        requested = f"remount,{options}" if mounted else options
        command = ["mount", "-t", "tmpfs", "-o", requested, "tmpfs", place]
        if subprocess.run(command, capture_output=True, check=False).returncode:
            pytest.skip("a disk cannot be mounted here")
        mounted[:] = [place]
        return place

    try:
        yield mount
    finally:
        for one in mounted:
            subprocess.run(["umount", one], check=True)
