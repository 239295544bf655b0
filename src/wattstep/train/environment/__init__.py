"""Surroundings of a run: its sensor host, ambient temperature, fan, idle time around it, and how steady it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wattstep.errors import InvalidValueError
from wattstep.record.hosts import EXECUTION_HOSTS, parse_target
from wattstep.record.hosts.emulation.settings import make_settings
from wattstep.record.recorder import Recorder
from wattstep.schema.channel import Channel
from wattstep.schema.condition_documents import ConditionFacts
from wattstep.schema.run_info import PlannedRead

AMBIENT_UNKNOWN = "the ambient temperature is unknown: give --ambient"
FAN_UNKNOWN = "whether a fan cools the device is unknown: give --fan"
FANS = ("fan_speed", "fan_duty")
# Colder or hotter is a slip of the pen (298 for kelvin, 77 for Fahrenheit).
COLDEST_C, HOTTEST_C = -60.0, 70.0


def surroundings(
    reads: Sequence[PlannedRead], ambient: float | None, target: str | None = None
) -> ConditionFacts:
    """Facts known of the room and of the fan before a run, JSON-ready.

    Args:
        reads: Sampled reads.
        ambient: Ambient temperature in °C as the user states it, or None.
        target: Where the sensors are; an emulated board knows its own air.

    Returns:
        "ambient" with its value in °C and where it comes from, or the channels that sample it;
        "fan" with the channels that sample one; what is not known is not there.
    """
    facts: ConditionFacts = {}
    sampled = _named(reads, "ambient_temperature")
    emulated = emulated_ambient(target)
    if emulated is not None:
        facts["ambient"] = {"value": emulated, "unit": "°C", "source": "of the emulated board"}
    elif ambient is not None:
        facts["ambient"] = {"value": ambient, "unit": "°C", "source": "given by the user"}
    elif sampled:
        facts["ambient"] = {"channels": sampled, "source": "sampled"}
    fans = _named(reads, *FANS)
    if fans:
        facts["fan"] = {"channels": fans}
    return facts


def channels_with(reads: Sequence[PlannedRead], *roles: str) -> list[Channel]:
    """The sampled channels of these roles."""
    return [channel for read in reads for channel in read.channels if channel.role in roles]


def _named(reads: Sequence[PlannedRead], *roles: str) -> list[str]:
    return [channel.name for channel in channels_with(reads, *roles)]


def add_environment(recorder: Recorder, **facts: Any) -> None:
    """Writes into the run's description what became known of its conditions."""
    recorder.about(conditions={**recorder.info.conditions, **facts})


def emulated_ambient(target: str | None) -> float | None:
    """Air around an emulated board in °C; None for every other target.

    Raises:
        InvalidValueError: There is no such board, or an option cannot be used.
    """
    parsed = parse_target(target)
    if parsed.scheme != "emulate":
        return None
    return make_settings(parsed.name, parsed.options).ambient_c


def check_target(target: str | None, ambient: float | None = None) -> None:
    """Refuses sensors that cannot be those of a training on this machine.

    Args:
        target: Where the sensors are.
        ambient: Ambient temperature in °C as the user states it, or None.

    Raises:
        InvalidValueError: Nobody knows the target, it is a device that trains by itself, or an
            emulated board whose air has another temperature.
    """
    if target is not None and target.partition(":")[0] in EXECUTION_HOSTS:
        scheme = target.partition(":")[0]
        raise InvalidValueError(
            f"--target {scheme}:...: this training runs here, not on that device; wattstep run and "
            "wattstep profile go there, and wattstep doctor --target shows what it can measure",
            id="trains-elsewhere",
        )
    emulated = emulated_ambient(target)
    if None not in (emulated, ambient) and emulated != ambient:
        raise InvalidValueError(
            f"--ambient {ambient:g}: the air of the emulated board has {emulated:g} °C; to change "
            f"it, write ambient={ambient:g} among the options of --target",
            id="other-ambient",
        )
