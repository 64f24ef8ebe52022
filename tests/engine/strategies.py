"""What the property tests of the engine share beside `plb.testing`."""

from __future__ import annotations

from hypothesis import settings

USUAL_EXAMPLES = 100
"""Examples of a property in the profile that holds unless another one is asked for."""


def examples(count: int) -> settings:
    """Return settings of a property: no deadline, since the first example compiles kernels.

    A profile that asks for fewer examples than usual gets as small a share of the count.
    """
    share = min(1.0, settings.default.max_examples / USUAL_EXAMPLES)
    return settings(deadline=None, max_examples=max(1, round(count * share)))
