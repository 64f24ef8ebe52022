"""The contents of a scenario file.

Begin reading in `cluster.scenario.scenario`.
"""
