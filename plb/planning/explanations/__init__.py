"""Why a plan is as it is: diagnoses, what-if questions, reasons of moves, queries.

Begin reading in `plb.planning.explanations.diagnosis`.
"""
