"""The study of [2]: Gaussian percentile approximation on the traces of a user.

Begin reading in `cluster.studies.gaussian.study`.
"""
