"""Settings under their Service Fabric names in snake_case, one module a subject.

Begin reading in `plb.settings.config`: `PlbConfig` has them all.
"""
