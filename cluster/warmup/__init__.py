"""Compile the kernels ahead: `plb warmup`.

Begin reading in `cluster.warmup.warmup`.
"""
