"""Whether runs differ: in time, energy, memory and operation by operation, and what that rests on."""
