"""What is run when a series goes on: its own experiment file, read once, with built-in behaviours only.

A series is data, whoever made it. Its folder holds files of its behaviours too, but those are not run from there: they
are run from the folder of the experiment, where somebody with access to the machine has put them.
"""

from __future__ import annotations

from stafette.database.masking import MASK
from stafette.errors import InvalidRequest
from stafette.lab.experiment import experiment_file
from stafette.lab.experiment.experiment_file import Experiment, InvalidExperiment
from stafette.lab.series.series_folder import Series
from stafette.runs.layout import EXPERIMENT_FILE


def experiment_of(series: Series) -> Experiment:
    """The experiment of a series, as its file says it; raises InvalidRequest if it cannot be run from there."""
    text = experiment_file.read_text(series.folder / EXPERIMENT_FILE)
    if MASK in text:
        raise InvalidRequest("the password of its database is not stored; run its experiment again instead")
    try:
        experiment = experiment_file.parse(
            text, folder=None, profile=series.record.profile, name=series.record.experiment
        )
    except InvalidExperiment as error:
        raise InvalidRequest(f"{series.name} cannot go on: {error.problems[0].reason}") from error
    series.check_plan(experiment)
    return experiment
