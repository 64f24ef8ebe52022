"""Kubernetes: an extender of its scheduler, and a rebalancer. Begin reading in `cluster.service.kubernetes.pods`."""
