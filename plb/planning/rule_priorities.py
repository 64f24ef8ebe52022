"""The priorities of rules by the settings, and the rules that a search relaxes from one attempt to the next.

See docs/service-fabric.md, Constraint priorities.
"""

from __future__ import annotations

from functools import cache

import attrs

from plb.constraints.domains import SPREADING
from plb.constraints.rules import RULES_IN_ORDER
from plb.model.rules import ALL_RULES, Rule, RuleMask
from plb.search.balancing import Variant
from plb.settings.config import PlbConfig
from plb.state.topology import is_packed

_MAY_BE_SOFT = tuple((description.rule, description.priority) for description in RULES_IN_ORDER if description.priority)


def rule_priorities(config: PlbConfig) -> dict[Rule, int]:
    """Return the priority of every constraint that may be soft: 0 hard, 1 soft, 2 wished for, -1 off."""
    return {rule: priority(config) for rule, priority in _MAY_BE_SOFT}


def rule_masks(config: PlbConfig, *, light: bool = False) -> tuple[RuleMask, ...]:
    """Return the sets of enforced rules, from all to the hard ones only; `light`: without the spread over domains."""
    return _masks_of(tuple(priority(config) for _, priority in _MAY_BE_SOFT), light)


@cache
def _masks_of(values: tuple[int, ...], light: bool) -> tuple[RuleMask, ...]:
    """Return `rule_masks` for `values`, the priorities of the rules of _MAY_BE_SOFT; `light`: without the spread."""
    priorities = {rule: value for (rule, _), value in zip(_MAY_BE_SOFT, values, strict=True)}
    off = sum(1 << rule for rule, priority in priorities.items() if priority < 0)
    if light:
        off |= SPREADING
        priorities = {rule: priority for rule, priority in priorities.items() if not SPREADING >> rule & 1}
    levels = sorted({0, *(priority for priority in priorities.values() if priority >= 0)}, reverse=True)
    relaxed = [sum(1 << rule for rule, priority in priorities.items() if priority > level) for level in levels]
    return tuple(dict.fromkeys(ALL_RULES & ~off & ~rules for rules in relaxed))


def placement_masks(config: PlbConfig) -> tuple[RuleMask, ...]:
    """Return the sets of rules that placement enforces in turn, from all to the last that it tries."""
    return rule_masks(config) if config.relax_constraint_for_placement else rule_masks(config)[:1]


LEAST_BINDING = 1
"""The last priority that is more than a wish: balancing also searches without the rules after it."""


def binding_rules(config: PlbConfig) -> RuleMask:
    """Return the enforced rules without wishes, the rules of a priority above LEAST_BINDING."""
    wished_for = sum(1 << rule for rule, priority in rule_priorities(config).items() if priority > LEAST_BINDING)
    return rule_masks(config)[0] & ~wished_for


def balancing_variants(config: PlbConfig, *, slow: bool) -> list[Variant]:
    """Return what balancing tries side by side (docs/service-fabric.md, Balancing).

    If sampling is biased, slow balancing also runs each variant unbiased.
    """
    variants = _unbiased_variants(config)
    if not config.biased_sampling:
        return variants
    biased = [attrs.evolve(variant, biased=True) for variant in variants]
    return [*biased, *variants] if slow else biased


def _unbiased_variants(config: PlbConfig) -> list[Variant]:
    """Return the usual search, with all rules of `rule_masks` enforced, and others by the settings.

    If some of the rules are wishes, one search only swaps roles, as preferred locations allow nothing else, and one is
    without wishes. If the heuristic is on and a metric is packed, one only empties nodes. A search of swaps only, or
    for emptying, has `larger_share` 0: larger steps also move replicas, and also onto nodes that others have left.
    """
    all_rules = rule_masks(config)[0]
    usual = Variant(
        all_rules,
        config.swap_primary_probability,
        (1.0 - config.swap_primary_probability) * (config.exchange_probability or 0.0),
        larger_share=config.larger_neighbourhood_share if config.swap_primary_probability < 1.0 else 0.0,
    )
    without_wishes = attrs.evolve(usual, mask=binding_rules(config))
    emptying = []
    if config.restricted_defragmentation_heuristic_enabled and any(is_packed(metric) for metric in config.metrics):
        emptying = [attrs.evolve(without_wishes, only_empties=True, larger_share=0.0)]
    if without_wishes.mask == all_rules:
        return [usual, *emptying]
    return [Variant(all_rules, 1.0, 0.0), usual, without_wishes, *emptying]
