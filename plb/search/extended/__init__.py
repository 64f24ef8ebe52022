"""Searches with extension terms, extension constraints and placement policies.

Searches in plain Python use the same annealing rule, proposals and budgets as the compiled ones.
"""
