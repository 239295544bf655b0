"""What a training on a CPU takes: memory of its process and time of its step, from the captured graph."""
