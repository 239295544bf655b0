"""A training in a fresh child process, under a limit of memory, and how it ended."""
