"""Experiments: a fabric, engines, jobs and levels, run in every listed combination."""

from weft.study.experiment.run import perform
from weft.study.experiment.run_level import Outcome
from weft.study.experiment.spec import Experiment
from weft.study.experiment.toml_file import check, read_experiment, resolved

__all__ = ["Experiment", "Outcome", "check", "perform", "read_experiment", "resolved"]
