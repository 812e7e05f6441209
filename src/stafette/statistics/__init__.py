"""Statistics of a few numbers per run: intervals, warm-up, trends, effects, models.

Pure functions on small tables that need no broker, trace or Spark: the numbers may come from any experiment.
docs/explanation/statistics.md says what each result means, and when not to trust it.
"""
