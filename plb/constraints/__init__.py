"""Constraints on placements, one file for each; `plb.model.rules` numbers them.

Begin reading in `plb.constraints.capacity`.
"""
