"""Compilation of the kernels in advance: `plb warmup`.

Begin reading in `cluster.warmup.warmup`.
"""
