"""Evaluation of proposals: constraints, energy changes and their application.

The entry point is `plb.evaluation.proposals`.
"""
