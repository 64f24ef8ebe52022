"""Settings of defragmentation that hold for all metrics; `plb.model.metric` has those of one."""

from __future__ import annotations

import attrs

from plb.model.setting_fields import Checked, number, switch


@attrs.frozen(kw_only=True, slots=False)
class DefragmentationSettings(Checked):
    """How uneven nodes and even domains are weighed for defragmentation metrics.

    Parameters
    ----------
    defragmentation_nodes_std_dev_factor : factor, default 1.0
        Weight of uneven loads of nodes.
    defragmentation_fds_std_dev_factor : factor, default 0.01
        Weight of even loads of fault domains.
    defragmentation_uds_std_dev_factor : factor, default 0.01
        Weight of even loads of upgrade domains.
    restricted_defragmentation_heuristic_enabled : switch, default False
        Whether balancing also searches with moves that only empty nodes.
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
