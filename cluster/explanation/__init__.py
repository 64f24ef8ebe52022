"""Why a tenant stood where it stood in a recorded run: `plb explain`.

Begin reading in `cluster.explanation.explanation`.
"""
