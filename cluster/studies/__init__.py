"""The studies: the experiments of the papers, run as tasks that can be resumed.

Begin reading in `cluster.studies.study`, which has the protocol of all studies.
"""
