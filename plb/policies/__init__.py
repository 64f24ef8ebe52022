"""Placement policies, which place one replica at a time. docs/policies.md has an example.

Begin reading in `plb.policies.fits`.
"""

from __future__ import annotations

from plb.extensions.policies import PlacementPolicy
from plb.policies.fits import (
    BestFit,
    FirstFit,
    InnerProduct,
    PrvBestFit,
    PrvWorstFit,
    Random,
    StandardDeviation,
    Weighting,
    WorstFit,
)
from plb.policies.learned import Learned
from plb.policies.repacking import Repacking

BUILT_IN: tuple[PlacementPolicy, ...] = (
    FirstFit(),
    Random(),
    BestFit(Weighting.SUM),
    BestFit(Weighting.MAX),
    WorstFit(Weighting.SUM),
    WorstFit(Weighting.MAX),
    StandardDeviation(),
    InnerProduct(),
    Repacking(),
    PrvBestFit(),
    PrvWorstFit(),
)
"""Those that need no checkpoint."""
LEARNED = Learned()
"""Decides as it was trained: it needs a checkpoint, and the extra ``learning``."""
KNOWN = (*BUILT_IN, LEARNED)
"""All that settings can name without an object of the host."""
READ_PROBABILITIES = frozenset(policy.name for policy in BUILT_IN if isinstance(policy, PrvBestFit))
"""Names of the policies that use violation probabilities."""
READ_HISTORY = READ_PROBABILITIES | {LEARNED.name}
"""Names of the policies that use the demand history; the others need no sampled demand."""
