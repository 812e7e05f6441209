"""`make torture`: breaks everything that can break under load, and holds what came out against what was promised."""
