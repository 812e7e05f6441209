"""Figures of the result tables: each function takes tables and returns a Plotly figure, or None if there is no data.
The report and the web pages use them; they need neither Spark nor files.
"""

from stafette.report.figures.breakdown import breakdown, breakdown_by_point
from stafette.report.figures.experiment_figures import (
    curves_by_operation,
    effects,
    effects_by_operation,
    predicted_and_measured,
    scaling_curve,
    variation,
    variation_by_operation,
)
from stafette.report.figures.over_time import (
    phases_over_time,
    processor_time,
    queue_lengths,
    response_time_over_time,
    throughput_over_time,
)
from stafette.report.figures.response_times import distribution, share_below_limits
from stafette.report.figures.style import DARK
from stafette.report.figures.table_rows import RunMetadata, Stages, run_metadata

__all__ = [
    "DARK",
    "RunMetadata",
    "Stages",
    "breakdown",
    "breakdown_by_point",
    "curves_by_operation",
    "distribution",
    "effects",
    "effects_by_operation",
    "phases_over_time",
    "predicted_and_measured",
    "processor_time",
    "queue_lengths",
    "response_time_over_time",
    "run_metadata",
    "scaling_curve",
    "share_below_limits",
    "throughput_over_time",
    "variation",
    "variation_by_operation",
]
