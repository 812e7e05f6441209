"""Repeats the reports' experiments: `python -m bench.results` runs and analyses them, and writes docs/results.md."""
