"""The reasons for the placement of a tenant in a recorded run: `plb explain`.

Begin reading in `cluster.explanation.explanation`.
"""
