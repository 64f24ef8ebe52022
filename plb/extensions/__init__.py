"""What users add to the engine: energy terms, constraints and placement policies, and the configuration they look at.

Begin reading in `plb.extensions.configuration`; `plb.registry` makes an extension known under its name.
"""
