"""What a proposal would do: the constraints that refuse it, the energy it changes, and doing it.

Begin reading in `plb.evaluation.proposals`.
"""
