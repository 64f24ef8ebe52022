"""Plots of runs and of traces: each function draws into an ``ax``.

Begin reading in `cluster.plots.base`.
"""
