"""How one call of the engine becomes a plan: the phases, their schedule, service domains, diagnosis and explanation.

Begin reading in `plb.planning.planner`.
"""
