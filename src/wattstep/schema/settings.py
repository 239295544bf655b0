"""Parsers of what users write on the command line and in Python."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from wattstep.errors import InvalidValueError
from wattstep.schema.run_documents import KeepFacts, PowerModelFacts

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ns|us|µs|ms|s|min|h|d)?")
LEAST_INTERVAL_S = 0.001
EXCLUDABLE = ("throttled", "disturbed")  # steps that figures may leave out
_SECONDS = {
    "ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0,
}  # fmt: skip
LEAST_KEPT_S = 10.0  # what stands for thinned samples is as long

# Watts a core when idle and when busy, from public sources.
POWER_MODELS: Mapping[str, tuple[float, float, str]] = {
    "vcpu": (
        0.74,
        3.5,
        "Cloud Carbon Footprint methodology: average least and most watts of a virtual CPU at AWS, "
        "from SPECpower",
    ),
}


def setting(default: Any, help: str = "", metavar: str | None = None, *, option: str = "") -> Any:
    """A field of settings, with all that the command line says of it.

    Args:
        default: Of the field, and of the option.
        help: Text of the option; "": there is none, or a command has its own.
        metavar: What stands for its value.
        option: Its name, without "--", where it is not the field's.
    """
    return field(default=default, metadata={"help": help, "metavar": metavar, "option": option})


def option_of(settings: type, name: str) -> str:
    """Spelling of a setting on the command line, without "--"."""
    named = {each.name: each.metadata.get("option") for each in fields(settings)}
    return named.get(name) or name.replace("_", "-")


def parse_duration(text: str | float) -> float:
    """Seconds from "10ms", "1.5 s" or a number of seconds.

    Raises:
        InvalidValueError: It is no duration, not above 0, or without end.
    """
    if isinstance(text, (int, float)):
        seconds = float(text)
    else:
        match = _DURATION.fullmatch(text.strip())
        if match is None:
            raise InvalidValueError(
                f"{text!r} is not a duration: write 10ms, 1s or 2min", id="malformed-duration"
            )
        seconds = float(match[1]) * _SECONDS[match[2] or "s"]
    check_above_0(f"a duration of {text}", seconds)
    return seconds


def check_above_0(what: str, value: float) -> None:
    """Refuses what is no finite number above 0.

    Args:
        what: The value as the user wrote it: "--seconds inf".
        value: The value.

    Raises:
        InvalidValueError: It is 0, below, infinite or no number.
    """
    if not 0 < value < math.inf:
        raise InvalidValueError(f"{what}: it must be a finite number above 0", id="out-of-range")


def parse_share(text: str) -> float:
    """A share from "10%" or "10 %": 0.1.

    Raises:
        InvalidValueError: It is none, or not above 0 and at most 100 %.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*%", text.strip())
    if match is None:
        raise InvalidValueError(f"{text!r} is no share: write 10%", id="malformed-share")
    share = float(match[1]) / 100
    if not 0 < share <= 1:
        raise InvalidValueError(
            f"a share of {text} cannot be used: it must be above 0 and at most 100%",
            id="out-of-range",
        )
    return share


def parse_interval(text: str | float) -> float:
    """The sampler's period in seconds.

    Raises:
        InvalidValueError: It is no duration, or below 1 ms.
    """
    seconds = parse_duration(text)
    if seconds < LEAST_INTERVAL_S:
        raise InvalidValueError(
            f"--interval {seconds * 1e3:g}ms is too fine: 1ms is the finest that is sampled",
            id="interval-too-fine",
        )
    return seconds


def parse_keep(text: str | None) -> KeepFacts:
    """For how long samples ("raw") and steps stay single ones, from "raw=1h,steps=1h"; None: for ever.

    Raises:
        InvalidValueError: It says something else, one of them twice or without an age, or less than 10 s.
    """
    kept: KeepFacts = {}
    for part in () if text is None else text.split(","):
        what, _, age = part.strip().partition("=")
        if what not in ("raw", "steps") or f"{what}_s" in kept or not age:
            raise InvalidValueError(
                f"--keep {str(text)[:40]}: write raw=1h,steps=1h, or one of them: samples and steps older "
                "than that are thinned, all else is kept",
                id="malformed-keep",
            )
        seconds = parse_duration(age)
        if seconds < LEAST_KEPT_S:
            raise InvalidValueError(
                f"--keep {what}={age[:20]}: {LEAST_KEPT_S:g}s is the least", id="out-of-range"
            )
        if what == "raw":
            kept["raw_s"] = seconds
        else:
            kept["steps_s"] = seconds
    return kept


@dataclass(frozen=True, kw_only=True)
class PowerModel:
    """Linear model of a machine's power, as a run's description has it.

    Attributes:
        name: As it was asked for: "vcpu", "linear:0.5,3".
        idle_watts_a_core: Power of an idle core in W.
        busy_watts_a_core: Power of a busy core in W.
        source: Where the figures come from.
    """

    name: str
    idle_watts_a_core: float
    busy_watts_a_core: float
    source: str

    @classmethod
    def from_dict(cls, document: PowerModelFacts) -> PowerModel:
        """From `run.json`, where it was checked."""
        return cls(
            name=document["name"],
            idle_watts_a_core=document["idle_watts_a_core"],
            busy_watts_a_core=document["busy_watts_a_core"],
            source=document["source"],
        )

    @property
    def dynamic_share(self) -> float:
        """Share of a busy core's power that an idle core does not take."""
        busy = self.busy_watts_a_core
        return 1 - self.idle_watts_a_core / busy if busy else 0.0


def parse_power_model(text: str | None) -> PowerModelFacts | None:
    """The power model that is asked for: "vcpu", or "linear:IDLE,BUSY" in watts a core.

    Raises:
        InvalidValueError: It is neither.
    """
    if text is None:
        return None
    if text in POWER_MODELS:
        idle, busy, source = POWER_MODELS[text]
    else:
        match = re.fullmatch(r"linear:(\d+(?:\.\d+)?),(\d+(?:\.\d+)?)", text)
        if match is None or float(match[2]) < float(match[1]):
            known = ", ".join(POWER_MODELS)
            raise InvalidValueError(
                f"--power-model {text!r} is neither one of {known} nor linear:IDLE,BUSY "
                "(watts a core, e.g. linear:0.5,3)",
                id="unknown-power-model",
            )
        idle, busy, source = float(match[1]), float(match[2]), "given by the user"
    return {"name": text, "idle_watts_a_core": idle, "busy_watts_a_core": busy, "source": source}
