"""The placement service: clusters over HTTP, with a durable log."""
