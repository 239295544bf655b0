"""Runs made from what other tools wrote: traces of operations, logs of sensors, or both, on one clock."""
