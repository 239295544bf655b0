"""The sampler: what it reads, the child process that reads it, and how it is started."""
