"""Experiments: a fabric, engines, jobs and levels, run in every combination that is listed."""

from weft.experiment.files import check, read, resolved
from weft.experiment.run import Outcome, perform
from weft.experiment.spec import Experiment

__all__ = ["Experiment", "Outcome", "check", "perform", "read", "resolved"]
