"""What the commands that plan nodes share, and the scenario that begins where a plan ends.

Begin reading in `cluster.provisioning.output`.
"""
