"""The cluster as arrays: the descriptions of users by row and index, from which every search starts.

Begin reading in `plb.state.cluster_state`.
"""
