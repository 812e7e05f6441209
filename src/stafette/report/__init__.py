"""From result tables to a page: the tables' schemas, their files, figures of them, and the report.

Nothing here needs Spark, so results can be shown on any machine that has them.
"""
