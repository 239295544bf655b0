"""Diagnosis of what this machine can measure, at what cost, and what not and why: two seconds of sampling, read back."""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from wattstep import engines
from wattstep.engines.trained import read_trained
from wattstep.record.recorder import Recorder, RecordingWarning
from wattstep.record.sensors import SENSORS
from wattstep.record.sensors import load as load_sensor
from wattstep.run import Run, load
from wattstep.schema.diagnosis import (
    ChannelFacts,
    Diagnosis,
    EngineFacts,
    PowerTotal,
    ProcessorFacts,
    SensorFacts,
)
from wattstep.schema.engine import Engine
from wattstep.schema.failures import contained
from wattstep.schema.figure import Missing
from wattstep.schema.journal import DEVICE_OPERATIONS, MARKS, OPERATIONS
from wattstep.schema.report_rows import SampledChannel
from wattstep.schema.run_documents import GpuFacts
from wattstep.schema.run_report import json_of

SECONDS = 2.0
BUSY_SHARE = 0.5  # of the time, so that counters of busy and of idle time both move


OF_OTHERS = {
    "sampler": "the sampler itself",
    "companion": "the sampler's collector, which reads what no file gives",
    "replay": "the sensors of the recording",
}


def diagnose(
    interval: str = "10ms", seconds: float = SECONDS, target: str | None = None
) -> Diagnosis:
    """Samples a target for a moment, with a half-busy process as the training.

    Args:
        interval: Of the sampler.
        seconds: How long.
        target: Where the sensors are, this machine where it is None.

    Returns:
        JSON-ready: "device", "processors" and "engines" (see there), "target", "total" (what its power is the sum of, or why there is
        none), "notes", "sensors" (each with its channels, or the reason why it is absent),
        "sampler" and "disk_bytes_an_hour".

    Raises:
        WattstepError: Sampling is not possible at all.
    """
    with tempfile.TemporaryDirectory(prefix="wattstep-") as folder, warnings.catch_warnings():
        # What it warns of stands in the run's notes, which are shown.
        warnings.simplefilter("ignore", RecordingWarning)
        path = Path(folder) / "doctor"
        about = {"workload": "doctor"}
        recorder = Recorder(path, interval=interval, trace="none", target=target, about=about)
        with recorder:
            _half_busy(recorder, seconds)
            # Samples only: marks are reserved in chunks, and depend on how long a step is.
            files = (path / "journal").glob("*.bin")
            others = ("replay-", MARKS, OPERATIONS, DEVICE_OPERATIONS)
            own_files = [f for f in files if not f.name.startswith(others)]
            size = sum(f.stat().st_size for f in own_files)
        run = load(path)
        report = run.report()
        return {
            "device": report.device,
            "processors": processors(),
            "engines": frameworks(),
            "interval": interval,
            "target": run.info.target,
            "total": _total(run),
            "notes": list(run.info.notes),
            "sensors": _sensors(run, report.channels),
            "sampler": json_of(report.recording),
            "disk_bytes_an_hour": size / seconds * 3600,
        }


def frameworks() -> list[EngineFacts]:
    """The engines, none of which is loaded, JSON-ready."""
    from importlib.metadata import packages_distributions, version

    names, trained = packages_distributions(), read_trained()
    rows: list[EngineFacts] = []
    for each in engines.ENGINES:
        row: EngineFacts = {
            "engine": each, "version": None, "reason": None, "exports": False,
            "trained": dict(trained.get(each, {})),
        }  # fmt: skip
        try:
            engine = engines.find(each)
            row["exports"], row["reason"] = engine.exports, engine.missing()
            if row["reason"] is None:
                package = next(iter(names.get(engine.module, ())), None)
                row["version"] = "there" if package is None else version(package)
        except Exception as error:  # another package's defect costs its own engine
            row["reason"] = contained(error)
        rows.append(row)
    return rows


def processors() -> list[ProcessorFacts]:
    """Processors of this machine that a training can be asked to run on, JSON-ready.

    Each has "engine", "name", "usable", "reason" (why it is not, or None) and "facts" (of a GPU).
    """
    rows: list[ProcessorFacts] = []
    for each in engines.ENGINES:
        try:
            rows += _processors_of(engines.find(each))
        except Exception as error:  # another package's defect costs its own engine
            reason = contained(error)
            rows.append(
                {"engine": each, "name": "cpu", "usable": False, "reason": reason, "facts": {}}
            )
    return rows


def _processors_of(engine: Engine) -> list[ProcessorFacts]:
    rows: list[ProcessorFacts] = []
    for name in engine.processors:
        reason = engine.lacking(name)
        usable = reason is None and name != "cpu"
        facts: GpuFacts = engine.device_facts(name) if usable else {}
        rows.append(
            {
                "engine": engine.name, "name": name, "usable": reason is None, "reason": reason,
                "facts": facts,
            }
        )  # fmt: skip
    return rows


def _total(run: Run) -> PowerTotal:
    """Source of the whole's power, and what its channels say that it leaves out."""
    energy = run.series.energy
    if isinstance(energy, Missing):
        return {"source": None, "status": None, "note": energy}
    return {"source": energy.source, "status": energy.status.value, "note": energy.note}


def _half_busy(recorder: Recorder, seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with recorder.step():
            busy_until = time.monotonic() + 0.02 * BUSY_SHARE
            while time.monotonic() < busy_until:
                pass
            time.sleep(0.02 * (1 - BUSY_SHARE))


def _sensors(run: Run, sampled: Sequence[SampledChannel]) -> list[SensorFacts]:
    by_sensor: dict[str, list[str]] = {}
    for read in run.info.reads:
        by_sensor.setdefault(read.sensor, []).extend(c.name for c in read.channels)
    channels = {channel.name: channel for channel in sampled}
    rows: list[SensorFacts] = []
    for name in dict.fromkeys(("sampler", *SENSORS, *by_sensor, *run.info.absent)):
        what = load_sensor(name).description if name in SENSORS else OF_OTHERS.get(name, "")
        reason = run.info.absent.get(name)
        names = () if name in run.info.absent else by_sensor.get(name, ())
        rows.append(
            {
                "name": name,
                "description": what,
                "present": name not in run.info.absent,
                "reason": reason,
                "channels": [_channel(run, channels[c]) for c in names],
            }
        )
    return rows


def _channel(run: Run, channel: SampledChannel) -> ChannelFacts:
    row: ChannelFacts = json_of(channel)
    if not channel.samples:
        return {**row, "value": None, "resolution_seen": None}
    _, value = run.series.raw(channel.name)
    known = value[np.isfinite(value)]
    steps = np.abs(np.diff(known))
    steps = steps[steps > 0]
    smallest = float(steps.min()) if len(steps) else None
    return {
        **row,
        "value": float(known[-1]),
        "resolution_seen": channel.resolution_seen or smallest,
    }
