"""The report: an HTML page on a results directory.

Begin reading in `cluster.report.writing`.
"""
