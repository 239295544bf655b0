"""Trains a workload or a script under a recorder, and whatever belongs to a training besides."""
