"""Output of the commands that plan nodes, and the scenario that starts with a plan.

Begin reading in `cluster.provisioning.output`.
"""
