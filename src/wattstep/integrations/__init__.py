"""Integrations with other training libraries: callbacks that record a training, and loggers that get its figures.

The callbacks lie beside each other, each needs its own library:
`from wattstep.integrations.lightning import WattstepCallback`,
`from wattstep.integrations.transformers import WattstepCallback`.
"""

from __future__ import annotations

from wattstep.integrations.loggers import log_run

__all__ = ["log_run"]
