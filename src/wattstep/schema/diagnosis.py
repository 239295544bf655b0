"""Findings of `wattstep doctor`, as its JSON has them: what a machine can measure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict

from wattstep.schema.figure import FigureDocument
from wattstep.schema.run_documents import DeviceFacts, GpuFacts


class ProcessorFacts(TypedDict):
    """A processor that a training can be asked to run on; `reason` says why it cannot, or is None.

    `engine` is not told by every board's wattstep: it is torch then.
    """

    engine: str
    name: str
    usable: bool
    reason: str | None
    facts: GpuFacts


class EngineFacts(TypedDict):
    """A framework that trains; `version` is None where it is not installed, and `reason` says how to get it.

    `exports` says whether it trains what `wattstep engines export` writes; `trained` why it does not
    train a workload of the suite, by its name, "" where it does, as it was last tried.
    """

    engine: str
    version: str | None
    reason: str | None
    exports: bool
    trained: dict[str, str]


class PowerTotal(TypedDict):
    """What the power in all is the sum of; `source` is None where there is none, and `note` says why."""

    source: str | None
    status: str | None
    note: str | None


class ChannelFacts(TypedDict):
    """A channel, as `SampledChannel` has it, with its last value; None: it had none."""

    name: str
    unit: str
    note: str
    value: float | None
    resolution_seen: float | None
    update_interval: float | None
    read_cost: float | None


class SensorFacts(TypedDict):
    """A sensor with its channels, or the reason why it is absent."""

    name: str
    description: str
    present: bool
    reason: str | None
    channels: list[ChannelFacts]


class Diagnosis(TypedDict):
    """What a target can measure.

    `processors`, `engines` and `interval` are not told by every board's wattstep, and `sampler` has texts and
    figures by name.
    """

    device: DeviceFacts
    processors: list[ProcessorFacts]
    engines: list[EngineFacts]
    interval: str
    target: str
    total: PowerTotal
    notes: list[str]
    sensors: list[SensorFacts]
    sampler: Mapping[str, str | FigureDocument]
    disk_bytes_an_hour: float
