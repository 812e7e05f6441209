"""Routes of the pages for people: a file for each kind of page."""
