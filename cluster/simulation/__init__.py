"""One run: tenants who come and go, metering, failovers, faults and upgrades, and the tables that record them.

Begin reading in `cluster.simulation.simulation`.
"""
