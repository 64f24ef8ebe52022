"""The studies of paper 1 and those with the same options, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cluster.studies.annealing import AnnealingStudy
from cluster.studies.calibration import CalibrationStudy
from cluster.studies.compression import CompressionStudy
from cluster.studies.densities import DensityStudy
from cluster.studies.energy_configurations import ConfigurationStudy
from cluster.studies.overhead import OverheadStudy
from cluster.studies.policies import PlacementPolicyStudy
from cluster.studies.request import StudyRequest
from cluster.studies.risk import RiskStudy
from cluster.studies.runner import Study
from cluster.studies.sensitivity import SensitivityStudy

STUDIES: Mapping[str, Callable[[StudyRequest], Study]] = {
    AnnealingStudy.name: AnnealingStudy.of,
    PlacementPolicyStudy.name: PlacementPolicyStudy.of,
    CompressionStudy.name: CompressionStudy.of,
    OverheadStudy.name: OverheadStudy.of,
    ConfigurationStudy.name: ConfigurationStudy.of,
    SensitivityStudy.name: SensitivityStudy.of,
    RiskStudy.name: RiskStudy.of,
    CalibrationStudy.name: CalibrationStudy.of,
    DensityStudy.name: DensityStudy.of,
}
"""Functions that return each study for the options of a user. Those that need a pilot run it."""
