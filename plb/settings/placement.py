"""Settings of placement for new replicas that fit on no node."""

from __future__ import annotations

import attrs

from plb.model.setting_fields import Checked, switch


@attrs.frozen(kw_only=True, slots=False)
class PlacementSettings(Checked):
    """Actions of placement for new replicas that fit on no node.

    Parameters
    ----------
    move_existing_replica_for_placement : switch, default True
        Whether existing replicas may move to free capacity for a new one.
    partially_place_services : switch, default True
        Whether a partition without replicas may be placed in part. False: all its replicas are placed, or none.
    relax_constraint_for_placement : switch, default True
        Whether soft constraints are relaxed for a new replica that fits nowhere else.
    use_separate_secondary_load : switch, default True
        Whether each secondary has its own load, and a new one the mean of the reported loads.
    """

    move_existing_replica_for_placement: bool = switch(True, "MoveExistingReplicaForPlacement", True)
    partially_place_services: bool = switch(True, "PartiallyPlaceServices", True)
    relax_constraint_for_placement: bool = switch(True, "RelaxConstraintForPlacement", True)
    use_separate_secondary_load: bool = switch(True, "UseSeparateSecondaryLoad", True)
