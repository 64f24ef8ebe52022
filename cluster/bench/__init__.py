"""How fast the engine is on this machine: `plb bench`.

Begin reading in `cluster.bench.engine` and `cluster.bench.start`.
"""
