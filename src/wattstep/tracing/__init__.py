"""What the framework says of its own operations while they run."""
