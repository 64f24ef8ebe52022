"""Searches that know energy terms and constraints of the user's own: in plain Python, at its speed.

They follow the same annealing rule as the compiled ones, draw the same proposals and keep to the same budgets.
"""
