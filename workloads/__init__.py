"""Demand traces: one columnar format, readers of public traces, synthetic regions, compression to demand models.

Begin reading in `workloads.trace`.
"""
