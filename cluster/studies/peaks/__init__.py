"""The study of [5]: peak predictors on the cells of regions, or on samples.

Begin reading in `cluster.studies.peaks.study`.
"""
