"""Extensions of the engine: energy terms, constraints and placement policies, and the configuration that they read.

Begin reading in `plb.extensions.configuration`; `plb.engine_extensions` has the extensions of an engine.
"""
