"""From steps, trace and samples to the cost of operations: arrays in, tables out; no sensor, no framework."""
