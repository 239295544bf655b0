"""State of a run while it is recorded, read from its journals by another process than the one that trains."""
