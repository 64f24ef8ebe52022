"""The simulated cluster: tenants who come and go, metering, failovers that take time, and the command line ``plb``."""
