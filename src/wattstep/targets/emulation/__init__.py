"""Emulated boards: a board's own file tree, moved with the load of the real training by a stated power model."""

from wattstep.targets.emulation.site import open_site

__all__ = ["open_site"]
