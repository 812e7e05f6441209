"""Making runs: the system under test, the load processes, and what is known of a run at its end."""
