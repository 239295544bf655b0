"""Sweeps of configurations on one host or many."""
