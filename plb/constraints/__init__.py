"""Constraints on placements, one file each; `plb.model.rules` numbers them."""
