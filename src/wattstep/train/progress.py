"""How far a training is."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import cast

from wattstep.schema.processes import ProgressFacts


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Progress of a run.

    Attributes:
        stage: "preparing", "waiting until steady", "idle before", "governing", "training",
            "tracing" (the last traced steps), "idle after", "following memory", "foreground" or "writing".
        share: Of the run that is done, from 0 to 1, what follows the measured steps in it: it is less
            than 1 as long as anything is reported.
        steps: Steps done.
        loss: Of the last step.
        said: Further state, in a few words.
        ahead: Time, joules and battery: used and left, in a few words.
        unpowered: Why there are no joules among that; "" where there are, or nothing is left.
    """

    stage: str
    share: float = 0.0
    steps: int = 0
    loss: float | None = None
    said: str = ""
    ahead: str = ""
    unpowered: str = ""

    def to_dict(self) -> ProgressFacts:
        """JSON-ready."""
        return cast(ProgressFacts, asdict(self))
