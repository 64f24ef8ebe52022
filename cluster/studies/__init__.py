"""The studies: the experiments of the papers, run as tasks that can be resumed.

Begin reading in `cluster.studies.runner`, which has the protocol of all studies.
"""
