"""What this machine can measure, at what cost, and what it cannot and why: two seconds of sampling, read back."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from wattstep.recorder import Recorder
from wattstep.records.journal import MARKS, OPERATIONS
from wattstep.run import Run, load
from wattstep.sensors import SENSORS
from wattstep.sensors import load as load_sensor

SECONDS = 2.0
BUSY_SHARE = 0.5  # of the time, so that counters of busy and of idle time both move


def diagnose(interval: str = "10ms", seconds: float = SECONDS) -> dict[str, Any]:
    """Samples this machine for a moment, with a half-busy process as the training.

    Returns:
        JSON-ready: "device", "sensors" (each with its channels, or the reason why it is absent),
        "sampler" and "disk_bytes_an_hour".

    Raises:
        WattstepError: Sampling is not possible at all.
    """
    with tempfile.TemporaryDirectory(prefix="wattstep-") as folder:
        path = Path(folder) / "doctor"
        recorder = Recorder(path, interval=interval, trace="none", about={"workload": "doctor"})
        with recorder:
            _half_busy(recorder, seconds)
            # Samples only: marks are reserved in chunks, and depend on how long a step is.
            files = (path / "journal").glob("*.bin")
            size = sum(f.stat().st_size for f in files if f.name not in (MARKS, OPERATIONS))
        run = load(path)
        document = run.document()
        return {
            "device": document["device"],
            "interval": interval,
            "sensors": _sensors(run, document),
            "sampler": document["recording"],
            "disk_bytes_an_hour": size / seconds * 3600,
        }


def _half_busy(recorder: Recorder, seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with recorder.step():
            busy_until = time.monotonic() + 0.02 * BUSY_SHARE
            while time.monotonic() < busy_until:
                pass
            time.sleep(0.02 * (1 - BUSY_SHARE))


def _sensors(run: Run, document: dict[str, Any]) -> list[dict[str, Any]]:
    by_sensor: dict[str, list[str]] = {}
    for read in run.info.reads:
        by_sensor.setdefault(read.sensor, []).extend(c.name for c in read.channels)
    channels = {row["name"]: row for row in document["channels"]}
    rows = []
    for name in ("sampler", *SENSORS):
        what = "the sampler itself" if name == "sampler" else load_sensor(name).description
        row: dict[str, Any] = {"name": name, "description": what}
        if name in run.info.absent:
            row |= {"present": False, "reason": run.info.absent[name], "channels": []}
        else:
            found = [_channel(run, channels[c]) for c in by_sensor.get(name, ())]
            row |= {"present": True, "reason": None, "channels": found}
        rows.append(row)
    return rows


def _channel(run: Run, row: dict[str, Any]) -> dict[str, Any]:
    if not row["samples"]:
        return {**row, "value": None, "resolution_seen": None}
    _, value = run.series.raw(row["name"])
    known = value[np.isfinite(value)]
    steps = np.abs(np.diff(known))
    steps = steps[steps > 0]
    return {
        **row,
        "value": float(known[-1]),
        "resolution_seen": float(steps.min()) if len(steps) else None,
    }
