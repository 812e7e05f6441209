"""Row-level work: pure functions from DataFrame to DataFrame, made of Spark's own expressions only."""
