"""Comparison of runs: two sides in full, many as a matrix, or against a baseline; from the runs' files alone."""
