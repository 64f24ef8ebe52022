"""Simulated annealing: one or more chains of random proposals (docs/service-fabric.md, Annealing).

Begin reading in `plb.search.annealing.annealing`.
"""
