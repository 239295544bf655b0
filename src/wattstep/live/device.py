"""State of the device meanwhile: load of cores and GPUs, heat, clocks, memory, and what slows it down."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from wattstep.device.throttling import OWN_ROLES, by_channel
from wattstep.live.running import Running, rates
from wattstep.schema.channel import RECORDING_CPU, Channel
from wattstep.schema.figure import Figure, Status, missing, weakest
from wattstep.schema.run_info import RunInfo

WINDOW_S: Final = 2.0  # load is the mean of so long
NOW_NS: Final = 3 * 10**9  # what throttled it until so long ago still counts as now
# A channel that was not written for so long is not shown as if it were fresh.
LOAD: Final = ("busy_time", "core_utilization")
GPU: Final = ("gpu_utilization", "gpu_memory_used")
MEMORY: Final = (
    "resident_memory", "children_resident_memory", "children_added_memory",
    "children_shared_memory", "total_memory", "available_memory", "used_memory",
)  # fmt: skip
WANTED: Final = frozenset(
    (
        *LOAD,
        *GPU,
        *MEMORY,
        *RECORDING_CPU,
        *OWN_ROLES,
        "temperature",
        "frequency",
        "process_cpu_time",
    )
)
UNSAMPLED: Final = "it was not sampled"


class Device:
    """State of the device by its channels.

    Args:
        info: Description of the run.
        channels: State of its channels, by name; filled by somebody else.
    """

    def __init__(self, info: RunInfo, channels: Mapping[str, Running]) -> None:
        self._info, self._channels = info, channels
        self._planned = [channel for read in info.reads for channel in read.channels]

    def _with(self, *roles: str) -> list[Channel]:
        return [channel for channel in self._planned if channel.role in roles]

    def _mean(self, channel: Channel) -> float | None:
        """Of the last seconds; of the last value where values are rarer."""
        running = self._channels.get(channel.name)
        if running is None or running.failed:
            return None
        rate = running.rate(WINDOW_S)
        return rate if rate is not None or channel.kind == "counter" else running.last

    def _last(self, channel: Channel) -> float | None:
        running = self._channels.get(channel.name)
        return None if running is None or running.failed else running.last

    # --- load ---------------------------------------------------------------------------------

    def cores(self) -> tuple[Figure, ...]:
        """Utilization of each core, in their order."""
        channels = next((loads for role in LOAD if (loads := self._with(role))), [])
        channels = sorted(channels, key=lambda channel: channel.core or 0)
        return tuple(self._share(channel) for channel in channels)

    def _share(self, channel: Channel) -> Figure:
        value = self._mean(channel)
        if value is None:
            return missing("ratio", f"{channel.name} gives no values")
        method = f"mean of the last {WINDOW_S:g} s"
        return _figure(min(max(value, 0.0), 1.0), "ratio", channel, method)

    def load(self) -> dict[str, Figure]:
        """`cpu_utilization` of all cores, and `process_cpu_cores`: how many the training uses."""
        cores = [core for core in self.cores() if core.value is not None]
        reason = self._info.absent.get("cpu", "busy time of cores was not sampled")
        figures = {"cpu_utilization": missing("ratio", reason)}
        if cores:
            mean = float(np.mean([core.value for core in cores if core.value is not None]))
            figures["cpu_utilization"] = Figure(
                value=mean, unit="ratio", status=weakest(core.status for core in cores),
                n=len(cores), source=cores[0].source, method=f"mean of {len(cores)} cores",
            )  # fmt: skip
        for channel in self._with("process_cpu_time"):
            value = self._mean(channel)
            if value is not None:
                figures["process_cpu_cores"] = _figure(value, "cores", channel)
        return figures

    def gpus(self) -> dict[str, Figure]:
        """Utilization of each GPU, by channel."""
        return {channel.name: self._share(channel) for channel in self._with("gpu_utilization")}

    # --- heat and clocks ----------------------------------------------------------------------

    def temperatures(self) -> dict[str, Figure]:
        """Of the zones, by channel."""
        return self._gauges("temperature", "°C")

    def frequencies(self) -> dict[str, Figure]:
        """Clocks, by channel."""
        return self._gauges("frequency", "Hz")

    def _gauges(self, role: str, unit: str) -> dict[str, Figure]:
        figures: dict[str, Figure] = {}
        for channel in self._with(role):
            value = self._last(channel)
            none = missing(unit, f"{channel.name} gives no values")
            figures[channel.name] = none if value is None else _figure(value, unit, channel)
        return figures

    def limits(self) -> dict[str, float]:
        """Temperature at which throttling begins (°C), and the highest frequency (Hz), by channel, where known."""
        channels = self._with("temperature", "frequency")
        return {channel.name: channel.limit for channel in channels if channel.limit is not None}

    def throttling(self) -> tuple[str, ...]:
        """The evidence for what slows the device down just now."""
        causes: dict[str, None] = {}
        for channel in self._with(*OWN_ROLES):
            running = self._channels.get(channel.name)
            if running is None or not len(running.recent[0]) or running.highest is None:
                continue
            t_ns, value = running.recent
            # A cap is one below the highest that it was, which may be longer ago.
            t_ns = np.concatenate([t_ns[:1] - 1, t_ns])
            value = np.concatenate([[_before(channel, running)], value])
            stretches = by_channel(channel, t_ns, value)
            causes |= {
                one.evidence: None for one in stretches if one.end_ns > running.last_ns - NOW_NS
            }
        return tuple(causes)

    def temperature_history(self) -> dict[int, float]:
        """Of the hottest zone in °C, by the number of its half second."""
        hottest: dict[int, float] = {}
        for channel in self._with("temperature"):
            running = self._channels.get(channel.name)
            for number, value in ({} if running is None else rates(running.trail)).items():
                hottest[number] = max(value, hottest.get(number, value))
        return hottest

    # --- memory and cost ----------------------------------------------------------------------

    def memory(self, peak: float | None) -> dict[str, Figure]:
        """`resident_memory`, `peak_memory` so far, `system_memory` and `total_memory`.

        Args:
            peak: Peak of the training by its own marks, in B.
        """
        figures: dict[str, Figure] = {}
        own = self._with("resident_memory")
        value = self._last(own[0]) if own else None
        reason = self._info.absent.get("process_memory", UNSAMPLED)
        if value is None:
            figures["resident_memory"] = missing("B", reason)
            figures["peak_memory"] = missing("B", reason)
        else:
            now, most = self._children()
            figures["resident_memory"] = _figure(value + now, "B", own[0])
            highest = max(self._channels[own[0].name].highest or value, peak or 0.0)
            figures["peak_memory"] = _figure(highest + most, "B", own[0], "highest so far")
        return figures | self._system_memory()

    def _children(self) -> tuple[float, float]:
        """Memory in B that child processes add, now and at most so far; shared pages count once.

        Their resident sets, less the share that the last proportional read found elsewhere.
        """
        resident, _ = self._child_memory("resident")
        added, most = self._child_memory("added")
        shared, _ = self._child_memory("shared")
        now = resident * added / (added + shared) if added + shared else resident
        return now, max(most, now)

    def _child_memory(self, which: str) -> tuple[float, float]:
        """Last and highest value in B; 0 where nothing was read."""
        for channel in self._with(f"children_{which}_memory"):
            running = self._channels.get(channel.name)
            if running is not None and running.last is not None:
                return running.last, running.highest or 0.0
        return 0.0, 0.0

    def _system_memory(self) -> dict[str, Figure]:
        total = next((c for c in self._with("total_memory")), None)
        size = None if total is None else self._last(total)
        figures: dict[str, Figure] = {}
        if total is not None and size is not None:
            figures["total_memory"] = _figure(size, "B", total)
        for channel in self._with("used_memory"):
            if (used := self._last(channel)) is not None:
                return figures | {"system_memory": _figure(used, "B", channel)}
        for channel in self._with("available_memory"):
            if size is not None and (free := self._last(channel)) is not None:
                return figures | {
                    "system_memory": _figure(size - free, "B", channel, "total less available")
                }
        reason = self._info.absent.get("system_memory", UNSAMPLED)
        return figures | {"system_memory": missing("B", reason)}

    def recording_cost(self) -> Figure:
        """CPU time of the sampler and its collector, in cores, since the recording began."""
        shares, sources = [], []
        for channel in self._with(*RECORDING_CPU):
            running = self._channels.get(channel.name)
            if running is not None and running.covered_s:
                shares.append(running.total / running.covered_s)
                sources.append(channel)
        if not shares:
            return missing("cores", "the sampler has not reported its own cost yet")
        return _figure(sum(shares), "cores", sources[0], "of one core, since the recording began")


def _figure(value: float, unit: str, channel: Channel, method: str | None = None) -> Figure:
    return Figure(
        value=value, unit=unit, status=Status(channel.status), source=channel.source, method=method
    )


def _before(channel: Channel, running: Running) -> float:
    """The value with which the last minute is compared: the highest of a cap, else the first of it."""
    if channel.role == "frequency_cap" and running.highest is not None:
        return running.highest
    return float(running.recent[1][0])
