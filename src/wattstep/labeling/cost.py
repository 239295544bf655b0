"""What labeling costs on a machine, as figures of a run, beside what Flame states."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from wattstep.schema.figure import Figure

SAMPLES: Final = 500  # of a step: what Flame states its energy for
FLAME_MILLIJOULES: Final[Mapping[str, float]] = {"Galaxy S9": 328.65, "Pixel 2": 414.84}
FLAME_DELAY_MS: Final = 0.75  # of a foreground job's frames


@dataclass(frozen=True, kw_only=True)
class LabelingCost:
    """Of labeling 500 samples, and of learning from them.

    Attributes:
        run: Folder that all figures come from.
        time, energy: Of 500 samples.
        delay: Of a frame of the foreground job; None: not asked for.
        missed: Share of frames that were late beside the labeling.
        nice: Of the labeling, beside the foreground job.
        budget_ms: What the delay may be at most.
    """

    run: str
    time: Figure
    energy: Figure
    delay: Figure | None = None
    missed: Figure | None = None
    nice: int = 0
    budget_ms: float = FLAME_DELAY_MS

    def kept(self) -> bool | None:
        """As `kept`; None also where there is no delay."""
        return None if self.delay is None else kept(self.delay, self.budget_ms)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready but for figures."""
        found: dict[str, Any] = {
            "run": self.run,
            "samples": SAMPLES,
            "time": self.time,
            "energy": self.energy,
            "flame_millijoules": dict(FLAME_MILLIJOULES),
        }
        if self.delay is not None:
            found["foreground"] = {
                "delay": self.delay, "missed": self.missed, "nice": self.nice,
                "budget_ms": self.budget_ms, "kept": self.kept(),
            }  # fmt: skip
        return found


def kept(delay: Figure, budget_ms: float) -> bool | None:
    """Whether frames are delayed by no more than the budget; None: the interval holds it, or there is no delay."""
    low, high = delay.low, delay.high
    if delay.value is None or low is None or high is None:
        return None
    budget = budget_ms * 1e-3
    return True if high <= budget else False if low > budget else None
