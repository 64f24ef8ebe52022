"""Settings under their Service Fabric names in snake_case, one module a theme; `plb.config.PlbConfig` has them all."""
