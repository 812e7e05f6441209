"""From a few figures per run to statements about them: intervals, warm-up, trends, effects, models.

Pure functions on small tables, with nothing in them of brokers, traces or Spark: what they are given may come from any
experiment. docs/explanation/statistics.md says what each result means, and when not to trust it.
"""
