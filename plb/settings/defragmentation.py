"""Settings of defragmentation for all metrics; `plb.model.metric` has those of one metric."""

from __future__ import annotations

import attrs

from plb.model.setting_fields import Checked, number, switch


@attrs.frozen(kw_only=True, slots=False)
class DefragmentationSettings(Checked):
    """Weights of the standard deviations for defragmentation metrics.

    Parameters
    ----------
    defragmentation_nodes_std_dev_factor : factor, default 1.0
        Weight of the standard deviation of the loads of nodes, which is to be large.
    defragmentation_fds_std_dev_factor : factor, default 0.01
        Weight of the standard deviation of the loads of fault domains, which is to be small.
    defragmentation_uds_std_dev_factor : factor, default 0.01
        Weight of the standard deviation of the loads of upgrade domains, which is to be small.
    restricted_defragmentation_heuristic_enabled : switch, default False
        Whether balancing also searches with moves that empty nodes only.
    nodes_with_reserved_load_overlap : switch, default False
        Whether the nodes kept free must be the same for all metrics.
    """

    defragmentation_nodes_std_dev_factor: float = number(1.0, "DefragmentationNodesStdDevFactor", 1.0, unit="factor")
    defragmentation_fds_std_dev_factor: float = number(0.01, "DefragmentationFdsStdDevFactor", 0.01, unit="factor")
    defragmentation_uds_std_dev_factor: float = number(0.01, "DefragmentationUdsStdDevFactor", 0.01, unit="factor")
    restricted_defragmentation_heuristic_enabled: bool = switch(
        False, "RestrictedDefragmentationHeuristicEnabled", False
    )
    nodes_with_reserved_load_overlap: bool = switch(False, "NodesWithReservedLoadOverlap", False)
