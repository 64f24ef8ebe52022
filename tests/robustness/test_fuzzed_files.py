"""For any file content, a reader gives a result or an error of the project."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings

from plb.errors import PlbError
from tests.robustness.public_targets import public_formats
from tests.robustness.targets import Target, project_formats, provisioning

PART = 7
"""Divisor of the number of examples of the profile, for each kind of file; ``--hypothesis-profile=long`` has many."""

with TemporaryDirectory() as _scratch:
    TARGETS: dict[str, Target] = {}
    for _of in (project_formats, provisioning, public_formats):
        TARGETS |= _of(Path(_scratch))


def lay(folder: Path, target: Target, contents: bytes) -> None:
    for name, data in target.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(contents if name == target.victim else data)


@pytest.mark.parametrize("name", TARGETS)
def test_damaged_files_are_refused(name: str):
    target = TARGETS[name]

    examples = max(1, settings.default.max_examples // PART)  # type: ignore[union-attr]

    @settings(deadline=None, max_examples=examples, suppress_health_check=list(HealthCheck))
    @given(contents=target.damage)
    def damage(contents: bytes) -> None:
        with TemporaryDirectory() as folder:
            lay(Path(folder), target, contents)
            with suppress(PlbError):
                target.read(Path(folder))

    damage()
