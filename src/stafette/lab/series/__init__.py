"""Series on disk: begun, continued, shown, compared and packed."""
