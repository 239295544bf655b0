"""A Run opened for reading: its metrics, its operations, and the document that reports are made of."""

from __future__ import annotations

from wattstep.run.run import Run, load

__all__ = ["Run", "load"]
