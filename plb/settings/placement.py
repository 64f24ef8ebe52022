"""Settings of placement: what happens to a new replica that fits nowhere as things stand."""

from __future__ import annotations

import attrs

from plb.model.setting_fields import Checked, switch


@attrs.frozen(kw_only=True, slots=False)
class PlacementSettings(Checked):
    """What placement may do so that a new replica fits.

    Parameters
    ----------
    move_existing_replica_for_placement : switch, default True
        Whether replicas that stand may move to make room for a new one.
    partially_place_services : switch, default True
        Whether a partition without replicas may be placed in part; if not, it is placed wholly or not at all.
    relax_constraint_for_placement : switch, default True
        Whether soft constraints give way for a new replica that fits nowhere else.
    use_separate_secondary_load : switch, default True
        Whether each secondary has a load of its own, and a new one the average of those reported.
    """

    move_existing_replica_for_placement: bool = switch(True, "MoveExistingReplicaForPlacement", True)
    partially_place_services: bool = switch(True, "PartiallyPlaceServices", True)
    relax_constraint_for_placement: bool = switch(True, "RelaxConstraintForPlacement", True)
    use_separate_secondary_load: bool = switch(True, "UseSeparateSecondaryLoad", True)
