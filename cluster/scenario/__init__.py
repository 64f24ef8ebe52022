"""What a scenario file says, one module a section.

Begin reading in `cluster.scenario.scenario`.
"""
