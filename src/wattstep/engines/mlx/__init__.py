"""MLX: Apple's array library, on the CPU; networks reach it as graphs of torch's operations."""
