"""Constraints: what a placement must respect, one file each; `plb.model.rules` numbers them."""
