"""The search: move generation, simulated annealing, and the phases placement, repair and balancing.

Begin reading in `plb.search.annealing.annealing`.
"""
