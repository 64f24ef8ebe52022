"""Scenarios that run in about a second."""

from __future__ import annotations

SMALL = """
[cluster]
nodes = 10
upgrade_domains = 5
[workload]
density = 1.5
history_tenants = 300
[run]
days = 0.1
seed = 3
[engine]
chains = 1
max_simulated_annealing_iterations = 2
simulated_annealing_iterations_per_round = 20
repetitions = 20
"""

TWO_CRASHES = """
[cluster]
nodes = 5
upgrade_domains = 5
fault_domains = 5
[workload]
density = 1.5
history_tenants = 300
[run]
days = 0.1
seed = 3
policies = ["modified", "first_fit"]
[engine]
chains = 1
max_simulated_annealing_iterations = 2
simulated_annealing_iterations_per_round = 20
repetitions = 20
[faults]
crashes = [{ node = "n3", at_hours = 0.5, hours = 1.4 }, { node = "n1", at_hours = 0.6, hours = 1.4 }]
rebuild_after_minutes = 10.0
"""
"""A small cluster with two nodes down for some time, so that tenants with four replicas miss two of them."""
