"""What a run is: its record, its window, its outcomes, the rules for percentiles and laws, and its files.

The laboratory makes runs, the pipeline analyses them, pages show them; all of them mean the same by these words.
"""
