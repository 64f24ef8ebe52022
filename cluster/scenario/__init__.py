"""The contents of a scenario file, one module for each section.

Begin reading in `cluster.scenario.scenario`.
"""
