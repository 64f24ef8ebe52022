"""All runs of a scenario or a study: one after the other, or in several processes.

Begin reading in `cluster.runs.experiment` and `cluster.runs.sweep`.
"""
