"""The tables of `plb traces`.

Begin reading in `cluster.traces.tables`.
"""
