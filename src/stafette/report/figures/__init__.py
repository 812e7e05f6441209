"""Figures out of the result tables: functions that take tables and give a Plotly figure, or nothing when there is
nothing to show. A report and a web page can use them alike; they know neither Spark nor files.
"""

from stafette.report.figures.breakdown import breakdown, breakdown_by_point
from stafette.report.figures.design import effects, predicted_and_measured, scaling_curve, variation
from stafette.report.figures.distribution import distribution, share_below_limits
from stafette.report.figures.over_time import (
    processor_time,
    queue_lengths,
    response_time_over_time,
    throughput_over_time,
)
from stafette.report.figures.style import DARK
from stafette.report.figures.table_rows import RunFacts, Stages, run_facts

__all__ = [
    "DARK",
    "RunFacts",
    "Stages",
    "breakdown",
    "breakdown_by_point",
    "distribution",
    "effects",
    "predicted_and_measured",
    "processor_time",
    "queue_lengths",
    "response_time_over_time",
    "run_facts",
    "scaling_curve",
    "share_below_limits",
    "throughput_over_time",
    "variation",
]
