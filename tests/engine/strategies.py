"""What the property tests of the engine share beside `plb.testing`."""

from __future__ import annotations

from hypothesis import settings


def examples(count: int) -> settings:
    """Return settings of a property: no deadline, since the first example compiles kernels."""
    return settings(deadline=None, max_examples=count)
