"""What `plb traces` shows.

Begin reading in `cluster.traces.tables`.
"""
