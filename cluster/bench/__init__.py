"""Benchmarks of the engine: `plb bench`.

Begin reading in `cluster.bench.engine` and `cluster.bench.start`.
"""
