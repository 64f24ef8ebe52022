"""Whatever stands in a file, its reader gives what it reads or an error of the project's own."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings

from plb.errors import PlbError
from tests.robustness.public_targets import public_formats
from tests.robustness.targets import Target, own_formats, provisioning

PART = 7
"""One in so many of the examples of the profile for each kind of file; ``--hypothesis-profile=long`` has many."""

with TemporaryDirectory() as _scratch:
    TARGETS: dict[str, Target] = {}
    for _of in (own_formats, provisioning, public_formats):
        TARGETS |= _of(Path(_scratch))


def lay(folder: Path, target: Target, contents: bytes) -> None:
    """Write the files of a target, one of them damaged."""
    for name, data in target.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(contents if name == target.victim else data)


@pytest.mark.parametrize("name", TARGETS)
def test_damaged_files_are_refused_in_words(name: str):
    """Never with an error of a library, nor with a warning."""
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
