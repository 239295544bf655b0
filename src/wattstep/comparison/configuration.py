"""What a run was a run of: its configuration, how two of them differ, and which differences may be meant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from wattstep.errors import InvalidValueError
from wattstep.records.run_info import RunInfo

# What may differ between sides where it is said to be meant, and what it is in words.
FACETS: Final[Mapping[str, str]] = {
    "workload": "the workload",
    "device": "the device",
    "clocks": "the clock mode",
    "target": "where the sensors are",
    "engine": "the engine",
    "processor": "the processor",
    "threads": "the number of threads",
    "batch": "the batch size",
    "precision": "the precision",
    "options": "how the workload was built or trained",
    "data": "the data",
    "recording": "how it was recorded",
}
# Settings of the training itself: in one folder of runs they differ because somebody chose so.
CHOSEN: Final = ("workload", "processor", "threads", "batch", "precision", "options")
_BUILDS: Final = ("accumulate", "classes", "image_size", "frames_per_step")
_MACHINE: Final = ("model", "board", "cpu", "architecture", "cores")


@dataclass(frozen=True, kw_only=True)
class Configuration:
    """The facets of a run, each in words; runs with equal ones are processes of one configuration."""

    facets: tuple[tuple[str, str], ...]

    def __getitem__(self, name: str) -> str:
        return dict(self.facets)[name]

    def differences(self, other: Configuration) -> dict[str, tuple[str, str]]:
        """By facet: what it is here and there, where that is not the same."""
        return {
            name: (mine, theirs)
            for (name, mine), (_, theirs) in zip(self.facets, other.facets, strict=True)
            if mine != theirs
        }


def configuration_of(info: RunInfo) -> Configuration:
    """What a run was a run of."""
    words = {
        "workload": _workload(info),
        "device": _joined(info.device, _MACHINE),
        "clocks": _clocks(info.device),
        "target": info.target,
        "engine": info.engine.partition(" ")[0] or "not known",
        "processor": _said(info.processor),
        "threads": _said(info.threads),
        "batch": _said(info.batch_size),
        "precision": _said(info.precision),
        "options": _joined(info.options, _BUILDS),
        "data": _data(info),
        "recording": "imported" if info.imported else "by wattstep",
    }
    return Configuration(facets=tuple((name, words[name]) for name in FACETS))


def check_across(names: Sequence[str]) -> frozenset[str]:
    """The facets that may differ.

    Raises:
        InvalidValueError: There is no such facet.
    """
    for name in names:
        if name not in FACETS:
            raise InvalidValueError(f"--across {name}: there are {', '.join(FACETS)}")
    return frozenset(names)


def refusal(
    a: Configuration, b: Configuration, across: frozenset[str], names: tuple[str, str]
) -> str | None:
    """Why two configurations cannot be compared, with the differences named; None where they can.

    Args:
        a: Of one side.
        b: Of the other.
        across: Facets whose difference is meant.
        names: Of the sides.
    """
    found = {key: both for key, both in a.differences(b).items() if key not in across}
    if not found:
        return None
    parts = [f"{FACETS[key]} ({mine} and {theirs})" for key, (mine, theirs) in found.items()]
    return (
        f"{names[0]} and {names[1]} differ in {'; '.join(parts)}: if that is what is to be "
        f"compared, say --across {','.join(sorted(across | set(found)))}"
    )


def label(configuration: Configuration, others: Sequence[Configuration]) -> str:
    """What sets a configuration apart from others: "batch 16, threads 2"; "" for nothing."""
    telling = {name for other in others for name in configuration.differences(other)}
    return ", ".join(
        value if name in ("workload", "device", "data", "engine", "options") else f"{name} {value}"
        for name, value in configuration.facets
        if name in telling
    )


def _workload(info: RunInfo) -> str:
    parameters = info.model.get("parameters")
    return info.workload if parameters is None else f"{info.workload} of {parameters:,} parameters"


def _clocks(device: Mapping[str, Any]) -> str:
    governors = device.get("governors") or {}
    kinds = sorted({str(kind) for kind in governors.values()})
    mode = device.get("power_mode")
    parts = [f"power mode {mode}"] * (mode is not None) + [f"governor {'/'.join(kinds)}"] * bool(
        kinds
    )
    return ", ".join(parts) or "not known"


def _data(info: RunInfo) -> str:
    if info.data is None:
        return "not known"
    return f"{info.data.name}{' (stand-in)' if info.data.stand_in else ''}"


def _joined(values: Mapping[str, Any], keys: Sequence[str]) -> str:
    known = [(key, values[key]) for key in keys if values.get(key) is not None]
    if keys is _MACHINE:
        return (
            ", ".join(f"{value} cores" if key == "cores" else str(value) for key, value in known)
            or "not known"
        )
    return ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in known) or "its own"


def _said(value: object) -> str:
    return "not known" if value is None else str(value)
