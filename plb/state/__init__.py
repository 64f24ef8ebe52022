"""The cluster as arrays: what users have said, by row and index, and what every search starts from.

Begin reading in `plb.state.cluster`.
"""
