"""torch behind the doors of an engine and of a tracer: the only room, beside its models, that imports it."""
