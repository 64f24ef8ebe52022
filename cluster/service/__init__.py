"""The placement service: clusters over HTTP, with a durable log.

Begin reading in `cluster.service.service`.
"""
