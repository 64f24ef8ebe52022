"""The number of nodes that a scenario needs, or its highest density, for a number of violations: `plb capacity`.

Begin reading in `cluster.capacity.running`.
"""
