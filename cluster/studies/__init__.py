"""The experiments of the papers: sweeps over settings, which end in tables and plots beside the published figures."""
