"""Settings under their Service Fabric names in snake_case, one module for each subject.

Begin reading in `plb.settings.config`: `PlbConfig` has all settings.
"""
