"""The study of [3]: the number of nodes that provisioning algorithms need.

Begin reading in `cluster.studies.provisioning.study`.
"""
