"""Benchmarks of the engine: `plb bench`.

Begin reading in `cluster.bench.engine`, `cluster.bench.search` and `cluster.bench.start`.
"""
