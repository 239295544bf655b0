"""What measured within a training's framework, as sources of figures name it: its tracer and its allocators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from wattstep.schema.run_info import RunInfo

TORCH: Final = "torch"


@dataclass(frozen=True)
class Instruments:
    """Names of what measured within a framework.

    Attributes:
        framework: Its name.
    """

    framework: str

    @property
    def profiler(self) -> str:
        """What traced operations."""
        return f"{self.framework} profiler"

    @property
    def tracer(self) -> str:
        """The same on the clock of the run's steps."""
        return f"{self.profiler}, monotonic clock"

    @property
    def allocator(self) -> str:
        """What counted the memory of operations."""
        return f"{self.framework} allocator"

    @property
    def device_allocator(self) -> str:
        """What counted the memory of a GPU."""
        return f"{self.framework}'s allocator of the GPU's memory"


def instruments_on(engine: str) -> Instruments:
    """Those of a framework.

    Args:
        engine: With its version, as `RunInfo.engine` has it.
    """
    return Instruments(engine.partition(" ")[0] or TORCH)


def instruments_of(info: RunInfo) -> Instruments:
    """Those of a run; of one that was imported they are torch's, in whose words traces are read."""
    return Instruments(TORCH) if info.imported else instruments_on(info.engine)
