"""The study of calibration: whether violations happen as often as the estimators of risk predict.

Begin reading in `cluster.studies.calibration.study`.
"""
