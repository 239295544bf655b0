"""Journals that are written by hand, so that what they say is known."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any, ClassVar

from wattstep.schema.channel import Channel
from wattstep.schema.journal import JOURNAL, MARK, MARKS, MISSING, NAMES, TICKS, Mark, samples_name
from wattstep.schema.run_info import PlannedRead, RunInfo
from wattstep.store.files import write_info
from wattstep.store.lock import RunLock

BEGIN_NS = 10**12
NAN = float("nan")


def channel(name: str, role: str, unit: str = "W", kind: str = "gauge", **more: Any) -> Channel:
    known = {"domain": "system", "source": "made", **more}
    return Channel(name=name, unit=unit, kind=kind, role=role, **known)  # type: ignore[arg-type]


class Journal:
    """A run that records, or seems to; this process holds its lock until the test is over."""

    opened: ClassVar[list[Journal]] = []

    def __init__(self, path: Path, *channels: Channel, **info: Any) -> None:
        self.path, self.channels = path, channels
        (path / JOURNAL).mkdir(parents=True)
        reads = tuple(
            PlannedRead(
                number=n, sensor="made", path="-", parser="number", every=10, channels=(one,)
            )
            for n, one in enumerate(channels)
        )
        known: dict[str, Any] = {
            "state": "recording", "created": "", "workload": "made", "title": "made", "engine": "",
            "batch_size": 4, "threads": 1, "precision": None, "processor": None, "seed": None,
            "interval_s": 0.01, "warmup": 0, "trace": "none", "reads": reads,
        }  # fmt: skip
        self.info = RunInfo(**{**known, **info})
        write_info(path, self.info)
        self.lock = RunLock(path)
        self.opened.append(self)
        self.now_ns = BEGIN_NS
        self.steps = 0

    def step(self, seconds: float, *, loss: float = 1.0, traced: bool = False) -> None:
        self.mark(Mark.STEP_START, code=int(traced), value=4.0)
        self.now_ns += round(seconds * 1e9)
        self.mark(Mark.STEP_END, value=loss)
        self.steps += 1

    def mark(self, kind: Mark, code: int = 0, value: float = 0.0) -> None:
        with (self.path / JOURNAL / MARKS).open("ab") as file:
            file.write(MARK.pack(self.now_ns, 0, value, kind, code, self.steps))

    def name(self, table: str, code: int, text: str) -> None:
        with (self.path / JOURNAL / NAMES).open("a", encoding="utf-8") as file:
            file.write(json.dumps([table, code, text]) + "\n")

    def sample(self, name: str, value: int | None, t_ns: int | None = None) -> None:
        """Raw, before the scale of the channel; None: a read that failed."""
        number = next(n for n, one in enumerate(self.channels) if one.name == name)
        t_ns = self.now_ns if t_ns is None else t_ns
        row = (t_ns, 0, value) if value is not None else (t_ns, 5, MISSING)
        with (self.path / JOURNAL / samples_name(number)).open("ab") as file:
            file.write(struct.pack("<3q", *row))

    def tick(self, late_ns: int = 1000, lost: int = 0) -> None:
        with (self.path / JOURNAL / TICKS).open("ab") as file:
            file.write(struct.pack("<4q", self.now_ns, late_ns, 1000, lost))
