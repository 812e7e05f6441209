"""Comparisons, as ratios within one run on one machine: absolute numbers say little about another machine."""
