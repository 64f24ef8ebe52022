"""Placement policies, one replica at a time: one file each, and one line below; docs/policies.md walks through one."""

from __future__ import annotations

from plb.policies.first_fit import FirstFit
from plb.policies.interface import PlacementPolicy
from plb.policies.random import Random

BUILT_IN: tuple[PlacementPolicy, ...] = (
    FirstFit(),
    Random(),
)
