"""The pipeline: from raw traces to statements one can trust, on Spark, the same on a laptop and on a cluster."""
