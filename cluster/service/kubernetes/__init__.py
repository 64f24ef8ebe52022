"""Kubernetes: an extender of its scheduler, and a rebalancer. Begin reading in `cluster.service.kubernetes.pods`."""

from cluster.service.kubernetes.extender import OPERATIONS, routes

__all__ = ["OPERATIONS", "routes"]
