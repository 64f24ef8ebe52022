"""Settings that the property tests share, in addition to `plb.testing`."""

from __future__ import annotations

from hypothesis import settings

FULL_EXAMPLES = 100
"""Number of examples of a property in the profile ``full``."""


def examples(count: int) -> settings:
    """Return settings of a property: no deadline, since the first example compiles kernels.

    A profile with fewer examples scales the count down by the same factor.
    """
    share = min(1.0, settings.default.max_examples / FULL_EXAMPLES)
    return settings(deadline=None, max_examples=max(1, round(count * share)))


KEEP_CAPACITY_FREE = (
    {"node_buffer_percentage": 0.2},
    {"node_overbooking_percentage": 0.2},
    {"node_overbooking_percentage": None},
)
"""Settings of a metric by which moves leave a part of the total capacity free."""
