"""Content of `run.json`: what ran, where, with which channels, and what could not be measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields
from typing import Any

from wattstep.errors import DamagedRunError
from wattstep.schema.channel import Channel
from wattstep.schema.checks import named, shown
from wattstep.schema.condition_documents import CanaryFacts, ConditionFacts
from wattstep.schema.run_checks import RUN
from wattstep.schema.run_documents import (
    AskedLength,
    CalibrationFile,
    DeviceClockFacts,
    DeviceFacts,
    ImportedFiles,
    KeepFacts,
    ModelFacts,
    PlannedFacts,
    PowerModelFacts,
    ScheduleFacts,
    TrainingOptions,
)
from wattstep.schema.workload import DataFacts

# How a run is written; what a wattstep does not know it refuses. Of a run that is closed:
SCHEMA_VERSION = 1  # 1: first format (November 2026)
# Of one whose rows lie in journals yet, or whose samples are thinned. 2: plain steps in one row;
# segments, packed or not; stretches in place of samples.
JOURNAL_VERSION = 2
NO_TRACE = "no operations: "  # begins the note that says why no step was traced


@dataclass(frozen=True, kw_only=True)
class PlannedRead:
    """A read as the sampler performs it; its number names its journal."""

    number: int
    sensor: str
    path: str
    parser: str
    every: int
    channels: tuple[Channel, ...]


@dataclass(frozen=True, kw_only=True)
class RunInfo:
    """The run's own description; everything that is not a series.

    Attributes:
        state: "recording", "closed" (by its recorder) or "recovered" (from its journals).
        workload: Name, or what the user's script is called.
        engine: Framework with its version.
        data: Which data, or None where a user's script did not say.
        device: What machine, reduced to what the figures need.
        target: Where its sensors were: "local", "replay:...", "emulate:...", "ssh:board", "agent", "imported".
        conditions: What surrounded the run: ambient temperature, fan, power mode, governor, how
            steady it was before; see `wattstep.train.environment`.
        canary: What a small fixed piece of work took "before" the first step and "after" the last:
            how fast the machine itself was; empty where there was none. See `conditions.canary`.
        imported: Where it was recorded by other tools, what they wrote ("trace", "telemetry") and
            how their clocks were brought together ("alignment"); empty for our own recordings.
        calibration: Of its rails against an external meter, or None; see `run.calibration`.
        environment: Versions of Python and libraries.
        model: Facts of the model: parameters, layers.
        options: How the workload was built and trained (accumulate, classes, image_size,
            rate_rule, until, ...), where it was one of ours.
        schedule: How its operations were planned; empty where the framework ran them in its own order.
        planned: The plan that it follows, with what that predicts; empty where it follows none.
        asked: When it is to end, where that is known before: "steps" (all of them), or "clean_steps"
            (without warm-up and traced ones), or "seconds" with "least_steps".
        interval_s: The sampler's period.
        keep: For how long samples and steps stay single ones, where that was said; empty: all of them do.
        warmup: Steps at the beginning that do not count.
        first_step: Number of the first step; above 0 where a training went on from a checkpoint.
        power_model: Name and parameters of the power model that the user asked for, or None.
        scheduling: What the sampler was granted.
        reads: What was sampled.
        absent: Sensor to reason.
        notes: What the reader must know (lost sampler, a profiler of the user's own).
        device_clock: Where steps lie on the timeline of a device that ran behind the host, which
            "device", and how its clock was mapped: "uncertainty_ns", "rate", "anchors"; empty: on
            the host's.
        clocks: Pairs of monotonic time and wall clock less it, in ns: begin and end.
        lost: Monotonic time in ns from which on something was not recorded, by part.
        gaps: From when to when (monotonic, ns) nothing was sampled: the sampler was started again.
    """

    state: str
    created: str
    workload: str
    title: str
    engine: str
    batch_size: int | None
    threads: int | None
    precision: str | None
    processor: str | None
    seed: int | None
    interval_s: float
    warmup: int
    trace: str
    keep: KeepFacts = field(default_factory=KeepFacts)
    first_step: int = 0
    data: DataFacts | None = None
    device: DeviceFacts = field(default_factory=DeviceFacts)
    target: str = "local"
    conditions: ConditionFacts = field(default_factory=ConditionFacts)
    canary: CanaryFacts = field(default_factory=CanaryFacts)
    imported: ImportedFiles = field(default_factory=ImportedFiles)
    calibration: CalibrationFile | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    model: ModelFacts = field(default_factory=ModelFacts)
    options: TrainingOptions = field(default_factory=TrainingOptions)
    schedule: ScheduleFacts = field(default_factory=ScheduleFacts)
    planned: PlannedFacts = field(default_factory=PlannedFacts)
    asked: AskedLength = field(default_factory=AskedLength)
    power_model: PowerModelFacts | None = None
    scheduling: str = ""
    reads: tuple[PlannedRead, ...] = ()
    absent: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    lost: Mapping[str, int] = field(default_factory=dict)
    gaps: tuple[tuple[int, int], ...] = ()
    clocks: tuple[tuple[int, int], ...] = ()
    device_clock: DeviceClockFacts = field(default_factory=DeviceClockFacts)

    @property
    def schema_version(self) -> int:
        """How this wattstep writes such a run."""
        thinned = self.keep.get("thinned_reads") or self.keep.get("thinned_steps")
        return _version_now(self.state, thinned=bool(thinned))

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {"schema_version": self.schema_version, **asdict(self)}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> RunInfo:
        """The inverse of `to_dict`.

        Raises:
            DamagedRunError: A field is missing, or a newer wattstep wrote it.
        """
        version, newest = (
            document.get("schema_version"),
            _version_now(document.get("state"), thinned=bool(document.get("keep"))),
        )
        if type(version) is not int or not 1 <= version <= newest:
            known = "1" if newest == 1 else f"1 to {newest}"
            raise DamagedRunError(
                f"run.json has schema {shown(version)}, this wattstep reads {known}",
                id="other-schema",
            )
        given = {key: value for key, value in document.items() if key in RUN}
        try:
            if lacking := _NEEDED - given.keys():
                raise ValueError(f"{min(lacking)} is missing")
            values = {key: named(key, RUN[key], value) for key, value in given.items()}
        except ValueError as error:
            raise DamagedRunError(
                f"run.json lacks or garbles a field: {error}", id="damaged-field"
            ) from error
        data = values.get("data")
        values["data"] = None if data is None else DataFacts(**data)
        values["reads"] = tuple(map(_planned_read, values.get("reads", ())))
        for key in ("notes", "clocks", "gaps"):
            values[key] = tuple(values.get(key, ()))
        return cls(**values)


def _version_now(state: Any, *, thinned: bool) -> int:
    return JOURNAL_VERSION if state == "recording" or thinned else SCHEMA_VERSION


def _planned_read(document: Mapping[str, Any]) -> PlannedRead:
    channels = tuple(Channel(**channel) for channel in document["channels"])
    return PlannedRead(**{**document, "channels": channels})


_NEEDED = {field.name for field in fields(RunInfo)} - {
    field.name
    for field in fields(RunInfo)
    if field.default is not MISSING or field.default_factory is not MISSING
}
