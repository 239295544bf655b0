"""Series within a trace: memory of tensors, and counter events."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from wattstep.formats.kineto.numbers import nanoseconds
from wattstep.formats.kineto.words import DEVICE_TYPES
from wattstep.formats.recording import Recording
from wattstep.schema.channel import Channel, Domain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wattstep.formats.kineto.decoding import Event

SAME_TIME = "a value of the same nanosecond as a later one of its channel"
NO_VALUE = "a counter without a number"
NO_TIME = "its time is no number"
NO_AMOUNT = "a memory event without bytes"
SUMMED = (
    "memory of {} is the sum of what was allocated and freed since the trace began: "
    "this version of torch writes no totals"
)


@dataclass
class _Series:
    channel: Channel
    t_ns: array[int] = field(default_factory=lambda: array("q"))
    value: array[float] = field(default_factory=lambda: array("d"))


class Counters:
    """Collects values by channel.

    Args:
        ignored: Counts, by reason, what is no value.
    """

    def __init__(self, ignored: Counter[str]) -> None:
        self._ignored = ignored
        self._series: dict[str, _Series] = {}
        self._summed: set[str] = set()

    def add_memory(self, events: Sequence[Event]) -> None:
        """Takes events called "[memory]": one allocation or release each."""
        times, known = nanoseconds([event.ts for event in events])
        for event, t_ns, timed in zip(events, times.tolist(), known.tolist(), strict=True):
            fields = event.args
            if not timed or fields.allocation is None:
                self._ignored[NO_AMOUNT if timed else NO_TIME] += 1
                continue
            device = _device(fields.device_type, fields.device_id)
            if fields.allocated is None:
                self._summed.add(device)
            amount = fields.allocation if fields.allocated is None else fields.allocated
            self._put(_memory(device, "allocated"), t_ns, amount)
            if fields.reserved is not None and device != "cpu":  # the CPU has no caching allocator
                self._put(_memory(device, "reserved"), t_ns, fields.reserved)

    def add_counted(self, event: Event, values: Mapping[str, Any]) -> None:
        """Takes an event of phase "C"."""
        times, known = nanoseconds([event.ts])
        numbers = {key: number for key, v in values.items() if (number := _number(v)) is not None}
        if not known[0] or not numbers:
            self._ignored[NO_VALUE if known[0] else NO_TIME] += 1
            return
        for key, number in numbers.items():
            self._put(_counter(event.name, key), int(times[0]), number)

    def _put(self, channel: Channel, t_ns: int, value: float) -> None:
        series = self._series.get(channel.name)
        if series is None:
            series = self._series[channel.name] = _Series(channel)
        series.t_ns.append(t_ns)
        series.value.append(value)

    def recording(self, shift_ns: int, clock: str) -> Recording | None:
        """All values in the order of their times, moved by this; None where there are none."""
        if not self._series:
            return None
        t_ns: dict[str, NDArray[np.int64]] = {}
        value: dict[str, NDArray[np.float64]] = {}
        for name, series in self._series.items():
            times = np.array(series.t_ns, np.int64)
            order = np.argsort(times, kind="stable")
            times, values = times[order], np.array(series.value, np.float64)[order]
            if name.removeprefix("memory.") in self._summed:
                values = np.cumsum(values)
            last = np.append(np.diff(times) > 0, True)
            if not name.startswith("memory_reserved."):  # the same events as those allocated
                self._ignored[SAME_TIME] += int((~last).sum())
            t_ns[name], value[name] = times[last] + shift_ns, values[last]
        return Recording(
            format="Kineto trace",
            channels=tuple(series.channel for series in self._series.values()),
            t_ns=t_ns,
            value=value,
            clock=clock,
            notes=tuple(SUMMED.format(device) for device in sorted(self._summed)),
        )


def _device(kind: int, number: int) -> str:
    word = DEVICE_TYPES.get(kind, f"device_type_{kind}_")
    return word if word == "cpu" else f"{word}{max(number, 0)}"


def _memory(device: str, what: str) -> Channel:
    domain: Domain = "gpu" if device.startswith("gpu") else "unknown"
    return Channel(
        name=f"memory.{device}" if what == "allocated" else f"memory_reserved.{device}",
        unit="B",
        kind="gauge",
        domain="memory" if device == "cpu" else domain,
        role=f"{what}_memory",
        source="Kineto [memory]",
        note="of torch's allocator, not of the process",
    )


def _counter(name: str, key: str) -> Channel:
    full = f"counter.{name}.{key}" if key else f"counter.{name}"
    return Channel(
        name=full,
        unit="",
        kind="gauge",
        domain="unknown",
        role="unknown",
        source="Kineto counter",
        note="the trace does not say its unit",
    )


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if np.isfinite(number) else None
