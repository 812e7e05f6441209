"""The experiment: its file, what may stand in it, what is wrong with it, and the points of its design."""
