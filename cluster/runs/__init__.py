"""All runs of a scenario or a study, sequential or in several processes.

Begin reading in `cluster.runs.experiment` and `cluster.runs.sweep`.
"""
