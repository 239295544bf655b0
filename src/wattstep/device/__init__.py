"""The physics of a device: heat, throttling, utilization, rooflines, other work on it."""
