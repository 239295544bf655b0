"""Clocks of imported files brought together."""
