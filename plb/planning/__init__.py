"""From a call of the engine to a plan: the phases, their schedule, service domains, diagnosis and explanation.

Begin reading in `plb.planning.planner`.
"""
