"""The simulated cluster that drives the engine, the studies, and the command line ``plb``.

Begin reading in `cluster.simulation.simulation`.
"""
