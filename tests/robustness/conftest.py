"""Shared inputs of this directory, and small disks."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.disks import Disk, disk
from tests.robustness.commands import write_inputs

__all__ = ["Disk", "disk", "inputs"]

settings.register_profile("long", deadline=None, max_examples=7000, suppress_health_check=list(HealthCheck))


@pytest.fixture(scope="session")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_inputs(tmp_path_factory.mktemp("inputs") / "all")
