"""Tracing: the framework's account of its own operations while they run."""
