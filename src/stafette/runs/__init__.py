"""What a run is: its record, window and outcomes, the rules for percentiles and laws, and its files.

The laboratory makes runs, the pipeline analyses them, pages show them. All of them use these definitions.
"""
