"""Frozen, versioned data and the small Protocols of the parts; standard library only."""
