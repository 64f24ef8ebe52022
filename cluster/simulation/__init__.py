"""One simulated run: tenants, metering, failovers, faults and upgrades, and the tables that record them.

Read `cluster.simulation.simulation` first.
"""
