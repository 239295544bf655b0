"""NVIDIA GPUs through NVIDIA's own library (NVML): power, energy, load, memory, clocks, throttling."""

from __future__ import annotations

import contextlib
import errno
import importlib
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from wattstep.record.push_sources import Emit, PushSource, ticks
from wattstep.record.sensors import present_or_absent
from wattstep.schema.channel import Absent, Channel, Domain, Kind, Present, Sensor, SensorRead
from wattstep.schema.journal import MISSING

NOT_INSTALLED = "nvidia-ml-py is not installed: pip install 'wattstep[nvidia]'"
ELSEWHERE = "NVML speaks of this machine's own GPUs, not of another file tree"
NO_NUMBER = 0xFFFF_FFFF  # what drivers leave in place of a number of 32 bits
FIELD_AVERAGE_POWER, FIELD_INSTANT_POWER = 185, 186  # nvml.h
AMPERE = 7  # NVML_DEVICE_ARCH_AMPERE
# Newer names first where the older ones are to go.
REASONS_CALLS = (
    "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons",
)  # fmt: skip
TEMPERATURE_CALLS = ("nvmlDeviceGetTemperature", "nvmlDeviceGetTemperatureV")
NO_FUNCTION = 13  # NVML_ERROR_FUNCTION_NOT_FOUND
# What asking for one quantity may take of a core: the counter of energy of an H200 takes 3 to 6 ms a call.
MOST_CPU = 0.1
GONE = (1, 9, 15)  # NVML_ERROR_UNINITIALIZED, _DRIVER_NOT_LOADED, _GPU_IS_LOST

# Why clocks are lower than they could be (nvml.h). Idleness, clocks that somebody chose, and the
# display's needs are no throttling.
BITS: Final[Mapping[int, str]] = MappingProxyType(
    {
        0x1: "idle",
        0x2: "chosen clocks",
        0x4: "power cap",
        0x8: "hardware slowdown",
        0x10: "sync boost",
        0x20: "thermal slowdown by the driver",
        0x40: "thermal slowdown by the hardware",
        0x80: "power brake",
        0x100: "display clocks",
    }
)
HARMLESS = 0x1 | 0x2 | 0x100

LOAD_NOTE = (
    "share of the driver's window (1/6 to 1 s) with a kernel running, not how full the GPU was"
)
ENERGY_NOTE = "of the card, since the driver was loaded"
POWER_NOTE = "of the card with its memory, not of the machine; gain of the sensor about ±5 %"
SHARE_NOTE = "; the sensor looks a quarter of the time (arXiv 2312.02741)"
COUNTER_NOTE = (
    "; nobody has documented that the counter is fed by more than the sensor of power, which looks a "
    "quarter of the time (arXiv 2312.02741)"
)
UNKNOWN_NOTE = "; how much of the time the sensor of this product looks is not published"
MIG_NOTE = (
    "of the whole card, which is cut into {} instances (MIG): what runs in the others is in it"
)
MIG_LOAD = "GPU {} is cut into instances (MIG): NVIDIA's library tells the load of none of them, nor of the card"
SENSED = ("power_part", "power_average", "energy_part")  # roles of what the sensor of power tells
REASONS_NOTE = ", ".join(f"0x{bit:x} {words}" for bit, words in BITS.items())


@dataclass(frozen=True, kw_only=True)
class Part:
    """Channel of a quantity; fields as of `Channel`."""

    word: str
    unit: str
    role: str
    scale: float
    domain: Domain = "gpu"
    kind: Kind = "gauge"
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Quantity:
    """Quantity that one call of the library gives.

    Attributes:
        call: The library and a GPU's handle in, raw integers out, one a part.
        parts: Its channels.
        source: Name of the call.
        period_s: It tells nothing new more often than this.
        limit: Highest clock, slowdown temperature, in the unit of the channel.
    """

    call: Callable[[Any, Any], Sequence[int]]
    parts: tuple[Part, ...]
    source: str
    period_s: float
    limit: Callable[[Any, Any], float] | None = None


class Nvml(Sensor):
    """Each GPU's quantities; one that the GPU does not support is left out alone.

    A GPU is a part of its machine: its power and energy are never the machine's total.
    """

    name = "nvml"
    description = "power, energy, load, memory, clocks and throttling of NVIDIA GPUs"

    def probe(self, root: Path, pid: int) -> Present | Absent:
        """Asks the library for GPUs, and each GPU for what it supports."""
        if root != Path("/"):
            return Absent(reason=ELSEWHERE)
        nvml = load_library()
        if isinstance(nvml, Absent):
            return nvml
        try:
            count = nvml.nvmlDeviceGetCount()
            reads = [part for index in range(count) for part in gpu_reads(nvml, index)]
        except nvml.NVMLError as error:
            return Absent(reason=f"the NVIDIA driver does not answer: {error}")
        finally:
            shut_down(nvml)
        return present_or_absent(reads, otherwise="the NVIDIA driver is there, but no GPU")


def load_library() -> Any:
    """The library, initialised, or why it cannot be had."""
    try:
        nvml: Any = importlib.import_module("pynvml")
    except ImportError:
        return Absent(reason=NOT_INSTALLED)
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        return Absent(reason=f"no NVIDIA driver: {error}")
    return nvml


def shut_down(nvml: Any) -> None:
    """Ends the use of the library; one that is lost already cannot be ended."""
    with contextlib.suppress(nvml.NVMLError):
        nvml.nvmlShutdown()


def gpu_reads(nvml: Any, index: int) -> Iterator[SensorRead | Absent]:
    """The quantities of one GPU that can be had now, each a read, or reasons."""
    try:
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
    except nvml.NVMLError as error:
        yield Absent(reason=f"GPU {index}: {error}")
        return
    keys = [key for key, quantity in QUANTITIES.items() if supports(nvml, handle, quantity)]
    instances = mig_instances(nvml, handle)
    if instances and "load" not in keys:
        yield Absent(reason=MIG_LOAD.format(index))
    if "instant_power" in keys:
        keys = [key for key in keys if key != "power"]
    elif "power" not in keys:
        yield Absent(reason=f"GPU {index} ({model(nvml, handle)}) tells no power")
    names = " ".join([*gpu_names(nvml, handle), *instances])
    for period_s in sorted({QUANTITIES[key].period_s for key in keys}):
        together = [key for key in keys if QUANTITIES[key].period_s == period_s]
        for key in together:
            read = gpu_read(nvml, handle, index, key, together)
            note = MIG_NOTE.format(len(instances)) if instances else ""
            yield replace(
                read, channels=tuple(_of_gpu(each, names, note) for each in read.channels)
            )


def _of_gpu(channel: Channel, names: str, note: str) -> Channel:
    """The channel with the names of its GPU, and what must be known of all that this one tells."""
    notes = "; ".join(part for part in (channel.note, note) if part)
    return replace(channel, gpu=names, note=notes)


def gpu_names(nvml: Any, handle: Any) -> list[str]:
    """The GPU's UUID and its address on the PCI bus, as far as it tells them."""
    names: list[str] = []
    asked: tuple[Callable[[], Any], ...] = (
        lambda: nvml.nvmlDeviceGetUUID(handle),
        lambda: nvml.nvmlDeviceGetPciInfo(handle).busId,
    )
    for ask in asked:
        # Bindings may lack a call, and a driver that is newer may not have it any more.
        with contextlib.suppress(nvml.NVMLError, AttributeError):
            name = ask()
            text = name.decode(errors="replace") if isinstance(name, bytes) else str(name)
            names.append(text.strip().lower())
    return [name for name in names if name]


def mig_instances(nvml: Any, handle: Any) -> list[str]:
    """UUIDs of the instances that the GPU is cut into; none where it is whole."""
    instances: list[str] = []
    with contextlib.suppress(nvml.NVMLError, AttributeError):
        if not nvml.nvmlDeviceGetMigMode(handle)[0]:
            return []
        for number in range(nvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
            with contextlib.suppress(nvml.NVMLError):  # a place without an instance
                instance = nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, number)
                instances += gpu_names(nvml, instance)[:1]
    return instances


def supports(nvml: Any, handle: Any, quantity: Quantity) -> bool:
    """True if the GPU gives this quantity now."""
    try:
        return any(raw != MISSING for raw in quantity.call(nvml, handle))
    except nvml.NVMLError:
        return False


def model(nvml: Any, handle: Any) -> str:
    """The product's name, e.g. "NVIDIA H100 PCIe"."""
    try:
        name = nvml.nvmlDeviceGetName(handle)
    except nvml.NVMLError:
        return "unnamed"
    return name.decode(errors="replace") if isinstance(name, bytes) else str(name)


def gpu_read(nvml: Any, handle: Any, index: int, key: str, together: Sequence[str]) -> SensorRead:
    """Read of one quantity; those of the same period are emitted by one push source."""
    quantity = QUANTITIES[key]
    return SensorRead(
        path=f"nvml:{index}:{key}",
        parser="feed",
        channels=tuple(
            gpu_channel(nvml, handle, index, quantity, part, key) for part in quantity.parts
        ),
        least_period_s=quantity.period_s,
        push_source="wattstep.record.sensors.nvml:make_source",
        push_settings={"index": index, "quantities": list(together)},
    )


def gpu_channel(
    nvml: Any, handle: Any, index: int, quantity: Quantity, part: Part, key: str
) -> Channel:
    """A channel, with what is known of this product's power sensor."""
    share, window_s, note = None, None, part.note
    if part.role in SENSED:
        share = observed_share(model(nvml, handle))
        if part.unit == "W":
            window_s = power_window(nvml, handle, key)
        known = COUNTER_NOTE if part.unit == "J" else SHARE_NOTE
        note = (part.note or POWER_NOTE) + (known if share else UNKNOWN_NOTE)
    return Channel(
        name=f"gpu{index}.{part.word}",
        unit=part.unit,
        kind=part.kind,
        domain=part.domain,
        role=part.role,
        source=quantity.source,
        scale=part.scale,
        resolution=part.scale,
        observed_share=share,
        window_s=window_s,
        limit=highest(nvml, handle, quantity),
        note=note,
    )


def observed_share(product: str) -> float | None:
    """The part of the time in which the power sensor looks, where somebody measured it; None: nobody did."""
    return 0.25 if re.search(r"\b[AH]100\b", product) else None


def power_window(nvml: Any, handle: Any, key: str) -> float | None:
    """Over what time the driver averages power: 1 s since Ampere, but not on its GA100."""
    if key == "instant_power":
        return None
    try:
        architecture = nvml.nvmlDeviceGetArchitecture(handle)
    except nvml.NVMLError:
        return None
    is_ga100 = re.search(r"\b(?:A100|A800|A30)\b", model(nvml, handle)) is not None
    averaged = AMPERE <= architecture < NO_NUMBER and not (architecture == AMPERE and is_ga100)
    return 1.0 if averaged else None


def highest(nvml: Any, handle: Any, quantity: Quantity) -> float | None:
    """The limit of a quantity, where the GPU tells it."""
    if quantity.limit is None:
        return None
    try:
        return quantity.limit(nvml, handle)
    except nvml.NVMLError:
        return None


# --- calls --------------------------------------------------------------------------------------


def _known(raw: int, most: int = 2**62) -> int:
    """A number, or MISSING for what drivers leave where there is none."""
    return int(raw) if 0 <= raw <= most and raw != NO_NUMBER else MISSING


def _call(*names: str, arguments: tuple[int, ...] = ()) -> Callable[[Any, Any], Sequence[int]]:
    """A call that gives one number, under the first of its names that bindings and driver have."""
    return lambda nvml, handle: (_known(_ask(nvml, names, handle, arguments)),)


def _ask(nvml: Any, names: Sequence[str], handle: Any, arguments: tuple[int, ...] = ()) -> int:
    available = [name for name in names if hasattr(nvml, name)]
    if not available:  # bindings that are older, or newer
        raise nvml.NVMLError(NO_FUNCTION)
    for name in available[:-1]:
        try:
            return int(getattr(nvml, name)(handle, *arguments))
        except nvml.NVMLError as error:
            if error.value != NO_FUNCTION:
                raise
    return int(getattr(nvml, available[-1])(handle, *arguments))


def _field(number: int) -> Callable[[Any, Any], Sequence[int]]:
    """A field of nvmlDeviceGetFieldValues, which has its own error beside the call's."""

    def call(nvml: Any, handle: Any) -> Sequence[int]:
        field = nvml.nvmlDeviceGetFieldValues(handle, [number])[0]
        if field.nvmlReturn != 0:
            raise nvml.NVMLError(field.nvmlReturn)
        return (_known(field.value.uiVal),)

    return call


def _loads(nvml: Any, handle: Any) -> Sequence[int]:
    rates = nvml.nvmlDeviceGetUtilizationRates(handle)
    return _known(rates.gpu, 100), _known(rates.memory, 100)


def _memory_used(nvml: Any, handle: Any) -> Sequence[int]:
    return (_known(nvml.nvmlDeviceGetMemoryInfo(handle).used),)


def _reasons(nvml: Any, handle: Any) -> Sequence[int]:
    """Those that are throttling, and all of them."""
    bits = _known(_ask(nvml, REASONS_CALLS, handle))
    return (bits if bits == MISSING else bits & ~HARMLESS), bits


def _highest_clock(kind: int) -> Callable[[Any, Any], float]:
    return lambda nvml, handle: float(nvml.nvmlDeviceGetMaxClockInfo(handle, kind)) * 1e6


def _slowdown(nvml: Any, handle: Any) -> float:
    return float(nvml.nvmlDeviceGetTemperatureThreshold(handle, SLOWDOWN))


SM_CLOCK, MEMORY_CLOCK, TEMPERATURE_GPU, SLOWDOWN = 1, 2, 0, 1  # nvml.h

QUANTITIES: Final[Mapping[str, Quantity]] = MappingProxyType(
    {
        "energy": Quantity(
            call=_call("nvmlDeviceGetTotalEnergyConsumption"),
            parts=(
                Part(
                    word="energy", unit="J", role="energy_part", scale=1e-3, kind="counter",
                    note=ENERGY_NOTE,
                ),
            ),
            source="NVML total energy consumption",
            period_s=0.02,
        ),
        "instant_power": Quantity(
            call=_field(FIELD_INSTANT_POWER),
            parts=(Part(word="power", unit="W", role="power_part", scale=1e-3),),
            source="NVML instant power",
            period_s=0.02,
        ),
        "power": Quantity(
            call=_call("nvmlDeviceGetPowerUsage"),
            parts=(Part(word="power", unit="W", role="power_part", scale=1e-3),),
            source="NVML power usage",
            period_s=0.02,
        ),
        "average_power": Quantity(
            call=_field(FIELD_AVERAGE_POWER),
            parts=(Part(word="average_power", unit="W", role="power_average", scale=1e-3),),
            source="NVML average power",
            period_s=0.1,
        ),
        "load": Quantity(
            call=_loads,
            parts=(
                Part(
                    word="utilization", unit="ratio", role="gpu_utilization", scale=1e-2,
                    note=LOAD_NOTE,
                ),
                Part(
                    word="memory_controller_utilization", unit="ratio", scale=1e-2,
                    role="memory_controller_utilization", domain="memory",
                ),
            ),
            source="NVML utilization rates",
            period_s=0.1,
        ),
        "memory": Quantity(
            call=_memory_used,
            parts=(Part(word="memory_used", unit="B", role="gpu_memory_used", scale=1),),
            source="NVML memory info",
            period_s=0.1,
        ),
        "clock": Quantity(
            call=_call("nvmlDeviceGetClockInfo", arguments=(SM_CLOCK,)),
            parts=(Part(word="frequency", unit="Hz", role="frequency", scale=1e6),),
            source="NVML SM clock",
            period_s=0.1,
            limit=_highest_clock(SM_CLOCK),
        ),
        "memory_clock": Quantity(
            call=_call("nvmlDeviceGetClockInfo", arguments=(MEMORY_CLOCK,)),
            parts=(
                Part(
                    word="memory_frequency", unit="Hz", role="frequency", scale=1e6,
                    domain="memory",
                ),
            ),
            source="NVML memory clock",
            period_s=0.1,
            limit=_highest_clock(MEMORY_CLOCK),
        ),
        "reasons": Quantity(
            call=_reasons,
            parts=(
                Part(
                    word="throttle_reasons", unit="events", role="throttle_reasons", scale=1,
                    note=REASONS_NOTE,
                ),
                Part(
                    word="clock_reasons", unit="events", role="clock_reasons", scale=1,
                    note=REASONS_NOTE,
                ),
            ),
            source="NVML clocks event reasons",
            period_s=0.1,
        ),
        "temperature": Quantity(
            call=_call(*TEMPERATURE_CALLS, arguments=(TEMPERATURE_GPU,)),
            parts=(
                Part(
                    word="temperature", unit="°C", role="temperature", scale=1, domain="thermal"
                ),
            ),
            source="NVML temperature",
            period_s=0.5,
            limit=_slowdown,
        ),
        "fan": Quantity(
            call=_call("nvmlDeviceGetFanSpeed"),
            parts=(Part(word="fan_duty", unit="ratio", role="fan_duty", scale=1e-2),),
            source="NVML fan speed",
            period_s=0.5,
        ),
        "power_limit": Quantity(
            call=_call("nvmlDeviceGetEnforcedPowerLimit"),
            parts=(Part(word="power_limit", unit="W", role="power_limit", scale=1e-3),),
            source="NVML enforced power limit",
            period_s=0.5,
        ),
    }
)  # fmt: skip


# --- the push source ----------------------------------------------------------------------------


def make_source(index: int, quantities: Sequence[str], period_s: float) -> PushSource:
    """The push source of `gpu_read`.

    Args:
        index: Of the GPU.
        quantities: Keys of `QUANTITIES`, in the order of the reads.
        period_s: Time between rows.
    """
    return _Polling(index, [QUANTITIES[key] for key in quantities], period_s)


class _Polling:
    def __init__(self, index: int, quantities: Sequence[Quantity], period_s: float) -> None:
        self._index, self._quantities, self._period_s = index, quantities, period_s
        self._rests_until_ns = [0] * len(quantities)

    def run(self, emit: Emit, stop: threading.Event) -> None:
        """Gives a row of each quantity at each tick; a call that fails is a gap in it alone.

        Raises:
            OSError: The library or the GPU is gone.
        """
        nvml = load_library()
        if isinstance(nvml, Absent):
            raise OSError(errno.ENODEV, nvml.reason)
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(self._index)
            for _ in ticks(self._period_s, stop):
                self._poll(nvml, handle, emit)
        except nvml.NVMLError as error:
            raise OSError(errno.ENODEV, f"GPU {self._index}: {error}") from error
        finally:
            shut_down(nvml)

    def _poll(self, nvml: Any, handle: Any, emit: Emit) -> None:
        for position, quantity in enumerate(self._quantities):
            t_ns = time.monotonic_ns()
            if t_ns < self._rests_until_ns[position]:
                continue
            used_ns = time.thread_time_ns()
            try:
                raw = quantity.call(nvml, handle)
            except nvml.NVMLError as error:
                if getattr(error, "value", None) in GONE:
                    raise
                emit(position, t_ns, errno.EIO, None)
            else:
                emit(position, t_ns, 0, raw)
            used_ns = time.thread_time_ns() - used_ns
            self._rests_until_ns[position] = t_ns + round(used_ns / MOST_CPU)
