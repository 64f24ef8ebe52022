"""Output and end of commands: tables, progress, and errors without a traceback.

Begin reading in `cluster.console.output`.
"""
