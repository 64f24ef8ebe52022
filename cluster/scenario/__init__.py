"""The contents of a scenario file, one module for each section.

Read `cluster.scenario.scenario` first.
"""
