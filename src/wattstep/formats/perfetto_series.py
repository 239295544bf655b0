"""Channels of a Perfetto trace: power rails, batteries, clocks of cores, counters."""

from __future__ import annotations

import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from wattstep.formats.odpm import RAILS
from wattstep.formats.perfetto_clocks import Longs
from wattstep.formats.recording import Recording
from wattstep.schema.channel import Channel, Domain

FORMAT: Final = "Perfetto trace"
MICRO: Final = 1e-6
MICRO_HOUR: Final = 3.6e-3  # µAh in C, µWh in J
MILLION: Final = 1_000_000

# By field of `BatteryCounters`: word, unit, role, factor, note.
BATTERY: Final[Mapping[str, tuple[str, str, str, float, str]]] = {
    "charge_counter_uah": ("charge", "C", "battery_charge", MICRO_HOUR, ""),
    "energy_counter_uwh": ("energy", "J", "battery_energy", MICRO_HOUR, ""),
    "voltage_uv": ("voltage", "V", "battery_voltage", MICRO, ""),
    "capacity_percent": ("level", "ratio", "battery_level", 1e-2, ""),
    "current_ua": (
        "current", "A", "battery_current_unclear", MICRO,
        "as the driver signs it: the trace does not tell whether a cable feeds the phone",
    ),
    "current_avg_ua": (
        "mean_current", "A", "battery_current_unclear", MICRO, "a mean of the driver's own",
    ),
}  # fmt: skip
_CONSUMERS: Final[Mapping[str, Domain]] = {"CPU_CLUSTER": "cpu", "DISPLAY": "system"}
# By `CounterDescriptor.Unit`.
_UNITS: Final[Mapping[int, tuple[str, float]]] = {1: ("s", 1e-9), 2: ("events", 1.0), 3: ("B", 1.0)}


@dataclass
class _Series:
    """Times on one or more clocks, and values, in the order of the file."""

    clock: array[int] = field(default_factory=lambda: array("q"))
    time: array[int] = field(default_factory=lambda: array("q"))
    value: array[float] = field(default_factory=lambda: array("d"))


class Sampled:
    """Series by what they are of; the channels are made at the end, when all names are known."""

    def __init__(self) -> None:
        self._series: defaultdict[tuple[Any, ...], _Series] = defaultdict(_Series)

    def add(self, key: tuple[Any, ...], clock: int, time: int, value: float) -> None:
        """Takes in one value, in the unit of the trace."""
        series = self._series[key]
        series.clock.append(clock)
        series.time.append(time)
        series.value.append(value)

    def recording(
        self,
        on_primary: Callable[[NDArray[np.int64], NDArray[np.int64]], tuple[Longs, Any]],
        channel_of: Callable[[tuple[Any, ...]], tuple[Channel, float, bool]],
        ignored: Counter[str],
        clock: str,
    ) -> Recording | None:
        """All series as one recording; None where there are none.

        Args:
            on_primary: Times on the trace's clock, and which of them are known, from clocks and
                times on them.
            channel_of: The channel of a series, the factor to its unit, and whether its values
                are steps to be added up.
            ignored: Takes in what became no value.
            clock: Kind of the trace's clock.
        """
        channels: dict[str, Channel] = {}
        t_ns: dict[str, Longs] = {}
        value: dict[str, Any] = {}
        notes: list[str] = []
        for key, series in self._series.items():
            channel, factor, added_up = channel_of(key)
            times, known = on_primary(
                np.array(series.clock, np.int64), np.array(series.time, np.int64)
            )
            values = np.array(series.value, np.float64)
            values = (np.cumsum(values) if added_up else values)[known]
            order = np.argsort(times[known], kind="stable")
            times, values = times[known][order], values[order]
            first = np.append(True, np.diff(times) > 0)[: len(times)]
            if repeated := int((~first).sum()):
                ignored["another value of a channel for a time that it has one for"] += repeated
            name = _free(channel.name, channels)
            channels[name] = channel if name == channel.name else replace(channel, name=name)
            t_ns[name], value[name] = times[first], _scaled(values[first], factor)
            back = int((np.diff(value[name]) < 0).sum())
            if back and channel.kind == "counter":
                notes.append(f"{name} goes back {back} times: its counter began again")
        if not channels:
            return None
        return Recording(
            format=FORMAT, channels=tuple(channels.values()), t_ns=t_ns, value=value, clock=clock,
            notes=tuple(notes),
        )  # fmt: skip


def rail_channel(name: str, subsystem: str) -> Channel:
    """The energy of a power rail, as the live sensor of phones names it."""
    domain, feeds = RAILS.get(name, ("unknown", ""))
    note = f"feeds the {feeds}" if feeds else "what it feeds is not known"
    return Channel(
        name=f"phone.{name}.energy", unit="J", kind="counter", domain=domain, role="energy_part",
        source=f"Perfetto power_rails, {name}" + (f" of {subsystem}" if subsystem else ""),
        resolution=MICRO, note=note,
    )  # fmt: skip


def battery_channel(battery: str, word: str) -> tuple[Channel, float]:
    """Counter of a battery by the field's name, and its factor to SI."""
    short, unit, role, factor, note = BATTERY[word]
    place = f"phone.battery.{_plain(battery)}." if battery else "phone.battery."
    channel = Channel(
        name=f"{place}{short}", unit=unit, kind="gauge", domain="battery", role=role,
        source=f"Perfetto battery, {word}", note=note,
    )  # fmt: skip
    return channel, factor


def consumer_channel(number: int, name: str, kind: str) -> Channel:
    """The energy that Android's service estimates for one consumer."""
    domain = "gpu" if name.upper() == "GPU" else _CONSUMERS.get(kind, "unknown")
    words = f"of type {kind}" if kind else "the trace does not describe it"
    return Channel(
        name=f"phone.consumer.{_plain(name) if name else number}.energy", unit="J", kind="counter",
        domain=domain, role="energy_part", resolution=MICRO, status="modelled",
        source="Perfetto android_energy_estimation_breakdown",
        note=f"the vendor's estimate for this consumer, {words}; may count what a rail counts, too",
    )  # fmt: skip


def frequency_channel(core: int) -> Channel:
    """The clock of a core, told at each change."""
    return Channel(
        name=f"cpu{core}.frequency", unit="Hz", kind="gauge", domain="cpu", role="frequency",
        source="Perfetto ftrace, cpu_frequency", core=core, resolution=1e3,
        note="recorded at changes only: a value holds until the next",
    )  # fmt: skip


def gpu_frequency_channel(gpu: int) -> Channel:
    """The clock of a GPU in kHz, as Android's drivers tell each change."""
    return Channel(
        name=f"gpu{gpu}.frequency", unit="Hz", kind="gauge", domain="gpu", role="frequency",
        source="Perfetto ftrace, gpu_frequency", resolution=1e3,
        note="recorded at changes only: a value holds until the next",
    )  # fmt: skip


def busy_channel(core: int) -> Channel:
    """Busy time of a core at each change of what it runs."""
    return Channel(
        name=f"cpu{core}.busy_time", unit="s", kind="counter", domain="cpu", role="busy_time",
        source="Perfetto ftrace, sched_switch", core=core, resolution=1e-9,
    )  # fmt: skip


def counter_channel(name: str, source: str, unit: int = 0, unit_name: str = "") -> Channel:
    """A counter that a program keeps in the trace; what it means is the program's own."""
    return Channel(
        name=f"trace.{_plain(name)}", unit=_UNITS.get(unit, (unit_name, 1.0))[0], kind="gauge",
        domain="unknown", role="unknown", source=source,
        note=f"{name!r}, as the traced program counts it",
    )  # fmt: skip


def counter_factor(unit: int, multiplier: int) -> float:
    """From the trace's unit of a counter to the channel's."""
    return _UNITS.get(unit, ("", 1.0))[1] * (multiplier or 1)


def _scaled(values: NDArray[np.float64], factor: float) -> NDArray[np.float64]:
    """Values times a factor; divided where that is a power of ten below 1, which is exact."""
    divisor = round(1 / factor) if factor < 1 else 0
    return values / divisor if divisor and 1 / divisor == factor else values * factor


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.]+", "_", name).strip("_.") or "unnamed"


def _free(name: str, taken: Mapping[str, Any]) -> str:
    """The name, with a number behind it where it is taken."""
    candidate, number = name, 1
    while candidate in taken:
        number += 1
        candidate = f"{name}.{number}"
    return candidate
