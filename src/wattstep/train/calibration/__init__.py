"""Measures this machine's values for predictions: small trainings, each in a fresh process, and a fit to them."""
