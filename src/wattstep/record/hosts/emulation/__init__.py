"""Emulated boards: a board's own file tree, moved with the load of the real training by a stated power model."""

from wattstep.record.hosts.emulation.host import open_host

__all__ = ["open_host"]
