"""The studies of paper 1 and other studies with the same options, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cluster.studies.annealing import AnnealingStudy
from cluster.studies.calibration.study import CalibrationStudy
from cluster.studies.compression import CompressionStudy
from cluster.studies.configurations import ConfigurationStudy, FormStudy
from cluster.studies.policies import OverheadStudy, PlacementPolicyStudy
from cluster.studies.rebalancing import RebalancingStudy
from cluster.studies.request import DensityStudy, StudyRequest
from cluster.studies.risk import RiskStudy
from cluster.studies.runner import Study
from cluster.studies.sensitivity import SensitivityStudy

STUDIES: Mapping[str, Callable[[StudyRequest], Study]] = {
    AnnealingStudy.name: AnnealingStudy.of,
    PlacementPolicyStudy.name: PlacementPolicyStudy.of,
    CompressionStudy.name: CompressionStudy.of,
    OverheadStudy.name: OverheadStudy.of,
    ConfigurationStudy.name: ConfigurationStudy.of,
    FormStudy.name: FormStudy.of,
    SensitivityStudy.name: SensitivityStudy.of,
    RiskStudy.name: RiskStudy.of,
    RebalancingStudy.name: RebalancingStudy.of,
    CalibrationStudy.name: CalibrationStudy.of,
    DensityStudy.name: DensityStudy.of,
}
"""Functions that return each study for the options of a user, and run the pilot of a study that needs one."""
