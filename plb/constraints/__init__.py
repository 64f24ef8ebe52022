"""Constraints on placements: one module for each rule, listed in `rules`; `plb.model.rules` numbers them.

Begin reading in `plb.constraints.capacity`.
"""
