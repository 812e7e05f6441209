"""Comparisons, as ratios within one run on one machine: absolute figures say little about another machine."""
