"""Placement policies, which place one replica at a time. docs/policies.md has an example.

Begin reading in `plb.policies.first_fit`.
"""

from __future__ import annotations

from plb.extensions.policies import PlacementPolicy
from plb.policies.first_fit import FirstFit
from plb.policies.fits import BestFit, WorstFit
from plb.policies.inner_product import InnerProduct
from plb.policies.learned import Learned
from plb.policies.prv import PrvBestFit, PrvWorstFit
from plb.policies.random import Random
from plb.policies.repacking import Repacking
from plb.policies.standard_deviation import StandardDeviation
from plb.policies.weighting import Weighting

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
"""All that settings can name without registration."""
READ_PROBABILITIES = frozenset(policy.name for policy in BUILT_IN if isinstance(policy, PrvBestFit))
"""Names of the policies that use violation probabilities."""
READ_HISTORY = READ_PROBABILITIES | {LEARNED.name}
"""Names of the policies that use the demand history; the others need no sampled demand."""
