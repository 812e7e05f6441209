"""Pages for people: one file per thing one can look at, each with its routes."""
