"""The search: proposals, annealing, and the phases placement, repair and balancing."""
