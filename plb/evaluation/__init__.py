"""Evaluation of proposals: constraints, energy changes and their application.

Begin reading in `plb.evaluation.proposals`.
"""
