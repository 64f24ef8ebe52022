"""Searches with extension terms, extension constraints and placement policies.

They are plain Python, with the annealing rule, proposals and budgets of the compiled searches. Begin reading in
`plb.search.extended.chain`.
"""
