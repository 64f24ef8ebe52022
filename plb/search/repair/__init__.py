"""Repair: moves that end violations of constraints, and moves that make room for new replicas.

Begin reading in `plb.search.repair.repair`.
"""
