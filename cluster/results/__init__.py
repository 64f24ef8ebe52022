"""The results directory of a run: writing, reading, checks and comparisons.

Read `cluster.results.writing` and `cluster.results.reading` first.
"""
