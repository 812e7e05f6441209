"""From result tables to a page: what they are, how they lie on disk, figures of them, and the report.

Nothing here knows Spark, so pages are shown and reports written wherever there are results.
"""
