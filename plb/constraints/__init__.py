"""Constraints on placements; `plb.model.rules` numbers them.

Begin reading in `plb.constraints.capacity`.
"""
