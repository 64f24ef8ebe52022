"""The energy: five terms of a configuration, computed from exact sums, and the score that combines them.

Begin reading in `plb.energy.terms`, which lists them.
"""
