"""How commands print and end: tables, progress, and errors without a traceback.

Begin reading in `cluster.console.output`.
"""
