"""Generating load: one load loop for `stafette bench`, the laboratory and loads without brokers."""
