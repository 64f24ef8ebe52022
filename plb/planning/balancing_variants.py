"""The searches that balancing tries side by side: with all rules, without the wishes, with swaps of roles only.

See docs/service-fabric.md, Balancing.
"""

from __future__ import annotations

import attrs

from plb.planning.rule_priorities import rule_masks, rule_priorities
from plb.search.balancing import Variant
from plb.settings.config import PlbConfig
from plb.state.defragmentation import is_packed

LEAST_BINDING = 1
"""The last priority that is more than a wish: balancing also searches without the rules after it."""


def balancing_variants(config: PlbConfig, *, slow: bool) -> list[Variant]:
    """Return what balancing tries side by side (docs/service-fabric.md, Balancing).

    While preferred locations are enforced, only swaps of roles are possible. A search without rules of optimisation,
    and one with swaps only, follow; if the setting requests it, another that only empties nodes.
    If sampling is biased, slow balancing also runs each of them unbiased.
    """
    variants = _unbiased_variants(config)
    if not config.biased_sampling:
        return variants
    biased = [attrs.evolve(variant, biased=True) for variant in variants]
    return [*biased, *variants] if slow else biased


def _unbiased_variants(config: PlbConfig) -> list[Variant]:
    mask = rule_masks(config)[0]
    usual = Variant(
        mask,
        config.swap_primary_probability,
        (1.0 - config.swap_primary_probability) * (config.exchange_probability or 0.0),
        larger_share=config.larger_neighbourhood_share if config.swap_primary_probability < 1.0 else 0.0,
    )
    wished_for = sum(1 << rule for rule, priority in rule_priorities(config).items() if priority > LEAST_BINDING)
    free = attrs.evolve(usual, mask=mask & ~wished_for)
    emptying = []
    if config.restricted_defragmentation_heuristic_enabled and any(is_packed(metric) for metric in config.metrics):
        emptying = [attrs.evolve(free, only_empties=True, larger_share=0.0)]
    if not wished_for:
        return [usual, *emptying]
    return [Variant(mask, 1.0, 0.0), usual, free, *emptying]
