"""Explanations, advice, comparisons and observations of recorded runs. Reads runs, nothing else."""
