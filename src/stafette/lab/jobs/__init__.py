"""Jobs: runs that are queued, in the console or elsewhere, and made one after the other by a process of their own."""
