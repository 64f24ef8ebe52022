"""The simulated cluster and the command line ``plb``. Read `cluster.simulation.simulation` first."""
