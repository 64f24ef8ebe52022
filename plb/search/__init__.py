"""The search: proposals, simulated annealing, and the phases placement, repair and balancing."""
