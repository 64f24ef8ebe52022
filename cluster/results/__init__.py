"""The results directory of a run: written, read, checked and compared.

Begin reading in `cluster.results.writing` and `cluster.results.reading`.
"""
