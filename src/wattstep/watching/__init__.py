"""What a run is doing while it is recorded, read from its journals by another process than the one that trains."""
