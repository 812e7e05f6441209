"""Traces and requests as DataFrames, for notebooks, jobs and Spark SQL::

    import stafette.spark

    requests = stafette.spark.requests(spark, "runs/ftab-6-0001")
    stafette.spark.summary(requests).show()
    stafette.spark.windows(requests, seconds=10.0).createOrReplaceTempView("windows")

All functions go from DataFrame to DataFrame, or from folders to one. Their columns are those of the result tables
(docs/analysis.md), but for intervals, which need the whole of a run at once.
"""

from stafette.spark.request_frames import REQUESTS, TRACES, breakdown, requests, summary, traces, windows

__all__ = ["REQUESTS", "TRACES", "breakdown", "requests", "summary", "traces", "windows"]
