"""A simulated run: tenants, metering, failovers, faults and upgrades, and the tables that record them.

Begin reading in `cluster.simulation.simulation`.
"""
