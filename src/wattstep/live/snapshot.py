"""Snapshot of a run: figures with their status, made from its journals alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from wattstep.schema.figure import Figure

WAITING: Final = "waiting"
RECORDING: Final = "recording"
ENDED: Final = "ended"
GONE: Final = "gone"


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """State of a run at one moment.

    Attributes:
        run: Its folder.
        state: "waiting" (there is no run yet), "recording", "closed", "recovered", "ended" (its
            process is gone and nobody closed it), "gone" (the folder was removed).
        workload: Name of what trains.
        setting: Further description in words: batch size, precision, engine, target.
        stage: "training", "tracing", "evaluation", "no step yet", ...
        elapsed: Time in s since the first step; before it, since the recording began.
        steps: Done so far.
        total: Steps in all, warm-up included; None where that is not known before.
        share: Of the run that is done, from 0 to 1; None where its end is not known before.
        figures: By name: see docs/live.md.
        cores: Utilization of each core in the last seconds.
        gpus: Utilization of each GPU in the last seconds, by channel.
        rails: Power by rail, by channel.
        temperatures: By channel.
        frequencies: By channel.
        limits: Temperature at which throttling begins, and the highest frequency, by channel, where known.
        evaluations: The last of each measure.
        throttling: Causes that slow it down just now, with the evidence.
        problems: Facts that the reader must know: a sampler that was lost, ticks that were.
        absent: Reasons why sensors are not there.
        history: Values of each half second, the oldest first, None where there is none: "step_time"
            (s), "power" (W), "temperature" (°C, of the hottest zone).
    """

    run: str
    state: str
    workload: str = ""
    setting: tuple[str, ...] = ()
    stage: str = ""
    elapsed: Figure | None = None
    steps: int = 0
    total: int | None = None
    share: float | None = None
    figures: Mapping[str, Figure] = field(default_factory=dict)
    cores: tuple[Figure, ...] = ()
    gpus: Mapping[str, Figure] = field(default_factory=dict)
    rails: Mapping[str, Figure] = field(default_factory=dict)
    temperatures: Mapping[str, Figure] = field(default_factory=dict)
    frequencies: Mapping[str, Figure] = field(default_factory=dict)
    limits: Mapping[str, float] = field(default_factory=dict)
    evaluations: Mapping[str, Figure] = field(default_factory=dict)
    throttling: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    absent: Mapping[str, str] = field(default_factory=dict)
    history: Mapping[str, tuple[float | None, ...]] = field(default_factory=dict)

    @property
    def over(self) -> bool:
        """True if nothing more will come."""
        return self.state not in (WAITING, RECORDING)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {name: _plain(getattr(self, name)) for name in self.__dataclass_fields__}


def _plain(thing: Any) -> Any:
    if isinstance(thing, Figure):
        return thing.to_dict()
    if isinstance(thing, Mapping):
        return {key: _plain(value) for key, value in thing.items()}
    if isinstance(thing, tuple):
        return [_plain(value) for value in thing]
    return thing
