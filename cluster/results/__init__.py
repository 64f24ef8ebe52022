"""The results directory of a run: writing, reading, checks and comparisons.

Begin reading in `cluster.results.writing` and `cluster.results.reading`.
"""
