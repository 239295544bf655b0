"""When a device was throttled: stretches of time in which a flag, a cap, a frequency or a temperature says so."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from wattstep.recorded.curves import Curve
from wattstep.schema.arrays import BoolArray, FloatArray, IntArray
from wattstep.schema.channel import Channel

Kind = Literal["throttled", "disturbed"]

CAPPED = 0.99  # of the highest cap: below, the cap was lowered
SLOW = 0.9  # of the frequency that the core otherwise has while it is busy
BUSY = 0.9  # of a window: the governor has no reason to lower the frequency
WINDOW_NS = 500_000_000  # busy time ticks in 10 ms
USUAL = 95  # percentile of the frequency of busy windows: what the core has when nothing hinders it
# Bits of throttle_reasons that slow the training down, and what they are called. NVIDIA: NVML's
# clocks event reasons, without 0x1 (idle), 0x2 (clocks that the user asked for) and 0x100 (display);
# Raspberry Pi: bits 0 to 3 of get_throttled, 16 to 19 only tell of the past.
THROTTLE_BITS: Mapping[str, Mapping[int, str]] = {
    "nvml": {
        0x4: "power cap",
        0x8: "slowed down by the hardware",
        0x10: "held back by another GPU of its group",
        0x20: "too warm (software)",
        0x40: "too warm (hardware)",
        0x80: "power brake",
    },
    "raspberry": {
        0x1: "voltage too low",
        0x2: "frequency capped",
        0x4: "throttled",
        0x8: "above its soft limit of temperature",
    },
}
_SOURCES = {"nvml": ("nvml", "nvidia"), "raspberry": ("raspberry", "vcgencmd", "get_throttled")}


@dataclass(frozen=True, kw_only=True)
class Stretch:
    """A stretch of time in which something slowed the training down.

    Attributes:
        start_ns: Begin: the last read that did not show it yet.
        end_ns: End: the first read that did not show it any more.
        kind: "throttled" (the device itself) or "disturbed" (something beside the training).
        cause: "flag", "events", "reasons", "cap", "frequency", "temperature", "other processes",
            "hypervisor".
        evidence: What was read, with numbers.
        uncertain_s: By how much begin and end are known.
    """

    start_ns: int
    end_ns: int
    kind: Kind
    cause: str
    evidence: str
    uncertain_s: float


def overlapping(start_ns: IntArray, end_ns: IntArray, stretches: Sequence[Stretch]) -> BoolArray:
    """Mask of the intervals that any of the stretches touches."""
    if not stretches:
        return np.zeros(len(start_ns), bool)
    spans = np.array(sorted((one.start_ns, one.end_ns) for one in stretches), np.int64)
    furthest = np.maximum.accumulate(spans[:, 1])
    # The last stretch that begins before the interval ends, and all before it.
    last = np.searchsorted(spans[:, 0], end_ns, side="left") - 1
    touched: BoolArray = (last >= 0) & (furthest[np.maximum(last, 0)] > start_ns)
    return touched


def by_channel(channel: Channel, t_ns: IntArray, value: FloatArray) -> list[Stretch]:
    """Stretches that a channel tells of by itself: a flag, events, reasons, a cap, a temperature."""
    known = np.isfinite(value)
    find = _FINDERS.get(channel.role)
    return [] if find is None or not known.any() else find(channel, t_ns[known], value[known])


def _flag(channel: Channel, t_ns: IntArray, value: FloatArray) -> list[Stretch]:
    return _stretches(t_ns, value != 0, "flag", lambda _: f"{channel.name} was set")


def _events(channel: Channel, t_ns: IntArray, value: FloatArray) -> list[Stretch]:
    """A counter that grew: it happened between the reads."""
    grew = np.concatenate([[False], np.diff(value) > 0])

    def words(at: slice) -> str:
        first = max(at.start - 1, 0)
        return f"{channel.name} counted {value[at.stop - 1] - value[first]:g} more"

    # Between a read and the next: nothing follows the one that shows it.
    return _stretches(t_ns, grew, "events", words, after=False)


def _reasons(channel: Channel, t_ns: IntArray, value: FloatArray) -> list[Stretch]:
    names = bits_of(channel)
    bits = value.astype(np.int64)
    if names is None:
        return _stretches(
            t_ns, bits != 0, "reasons", lambda at: f"{channel.name}: {_hex(bits[at])}"
        )
    harmful = bits & sum(names)

    def words(at: slice) -> str:
        seen = int(np.bitwise_or.reduce(harmful[at]))
        listed = ", ".join(name for bit, name in names.items() if seen & bit)
        return f"{channel.name}: {listed} ({seen:#x})"

    return _stretches(t_ns, harmful != 0, "reasons", words)


def bits_of(channel: Channel) -> Mapping[int, str] | None:
    """The bits that count, by the source of the channel; None where their meaning is not known."""
    text = f"{channel.source} {channel.name}".lower()
    for kind, words in _SOURCES.items():
        if any(word in text for word in words):
            return THROTTLE_BITS[kind]
    return None


def _hex(bits: IntArray) -> str:
    return f"{int(np.bitwise_or.reduce(bits)):#x}"


def _cap(channel: Channel, t_ns: IntArray, value: FloatArray) -> list[Stretch]:
    """A cap below the highest that it was: one that never moves is a setting (a power mode)."""
    highest = float(value.max())

    def words(at: slice) -> str:
        return f"{channel.name} fell to {_hertz(value[at].min())}, from {_hertz(highest)}"

    return _stretches(t_ns, value < CAPPED * highest, "cap", words)


def _temperature(channel: Channel, t_ns: IntArray, value: FloatArray) -> list[Stretch]:
    limit = channel.limit
    if limit is None:
        return []

    def words(at: slice) -> str:
        return f"{channel.name} reached {value[at].max():.4g} °C; throttling begins at {limit:g} °C"

    return _stretches(t_ns, value >= limit, "temperature", words)


_FINDERS: Mapping[str, Callable[[Channel, IntArray, FloatArray], list[Stretch]]] = {
    "throttle_flag": _flag,
    "throttle_events": _events,
    "throttle_reasons": _reasons,
    "frequency_cap": _cap,
    "temperature": _temperature,
}
OWN_ROLES = tuple(_FINDERS)


def held_cap(channel: Channel, value: FloatArray) -> str | None:
    """In words, that a cap below the highest frequency stood all the time; None where none did."""
    known = value[np.isfinite(value)]
    if channel.limit is None or not len(known) or known.max() >= CAPPED * channel.limit:
        return None
    return (
        f"{channel.name} allowed at most {_hertz(known.max())} of {_hertz(channel.limit)} "
        "all the time: a power mode or a setting, or a cap from before the run"
    )


def slow_while_busy(
    channel: Channel, t_ns: IntArray, value: FloatArray, busy: Curve
) -> list[Stretch]:
    """Stretches in which a busy core ran below the frequency that it otherwise has while busy.

    This shows what firmware does without telling the kernel, if it lasts: frequencies are judged by
    the half second, two in a row, as a governor takes a moment; those read more rarely than that
    each by itself.

    Args:
        channel: Its frequency.
        t_ns: Times of the samples in ns.
        value: Frequencies in Hz; NaN: failed read.
        busy: Busy time of the same core in s.
    """
    known = np.isfinite(value)
    t_ns, value = t_ns[known], value[known]
    if len(t_ns) < 2:
        return []
    rare = int(np.median(np.diff(t_ns))) >= WINDOW_NS
    edges = _between(t_ns) if rare else np.arange(t_ns[0], t_ns[-1] + 1, WINDOW_NS)
    if len(edges) < 3:
        return []
    gains, covered = busy.difference(edges[:-1], edges[1:])
    lengths = np.diff(edges) * 1e-9
    share = np.nan_to_num(gains) / (lengths * np.maximum(covered, 0.5))
    mean = value if rare else _means(t_ns, value, edges)
    working = (covered > 0.5) & (share > BUSY) & np.isfinite(mean)
    if not working.any():
        return []
    usual = float(np.percentile(mean[working], USUAL))
    slow = working & (mean < SLOW * usual)

    def words(at: slice) -> str:
        return (
            f"{channel.name} was {_hertz(mean[at].min())} with the core busy for "
            f"{100 * min(share[at].mean(), 1.0):.0f} % of the time; otherwise {_hertz(usual)}"
        )

    if rare:
        return _stretches(t_ns, slow, "frequency", words)
    slow &= np.append(slow[1:], False) | np.insert(slow[:-1], 0, False)
    stretches = _stretches(edges[1:], slow, "frequency", words, after=False)
    return [_wider(one, WINDOW_NS) for one in stretches]


def _wider(stretch: Stretch, by_ns: int) -> Stretch:
    """It may have begun or ended within the windows beside."""
    return replace(
        stretch,
        start_ns=stretch.start_ns - by_ns,
        end_ns=stretch.end_ns + by_ns,
        uncertain_s=by_ns * 1e-9,
    )


def _between(t_ns: IntArray) -> IntArray:
    """Edges that keep each sample in a window of its own."""
    middle = t_ns[:-1] + np.diff(t_ns) // 2
    return np.concatenate([t_ns[:1], middle, t_ns[-1:]])


def _means(t_ns: IntArray, value: FloatArray, edges: IntArray) -> FloatArray:
    """Mean of the samples in each window; NaN where there is none."""
    number = np.searchsorted(edges, t_ns, side="right") - 1
    inside = (number >= 0) & (number < len(edges) - 1)
    counts = np.bincount(number[inside], minlength=len(edges) - 1)
    sums = np.bincount(number[inside], value[inside], minlength=len(edges) - 1)
    means: FloatArray = np.divide(sums, counts, out=np.full(len(counts), np.nan), where=counts > 0)
    return means


def windows_as_stretches(
    begin_ns: IntArray, end_ns: IntArray, seen: BoolArray, cause: str, words: Callable[[slice], str]
) -> list[Stretch]:
    """Windows in a row in which something beside the training was seen, as stretches."""
    return [
        Stretch(
            start_ns=int(begin_ns[at.start]), end_ns=int(end_ns[at.stop - 1]), kind="disturbed",
            cause=cause, evidence=words(at),
            uncertain_s=float(end_ns[at.start] - begin_ns[at.start]) * 1e-9,
        )
        for at in _runs(seen)
    ]  # fmt: skip


def merged(stretches: Iterable[Stretch]) -> list[Stretch]:
    """Stretches of one cause that touch made one, in order of time; the first evidence stands."""
    result: list[Stretch] = []
    for stretch in sorted(stretches, key=lambda one: (one.kind, one.cause, one.start_ns)):
        last = result[-1] if result else None
        same = last is not None and (last.kind, last.cause) == (stretch.kind, stretch.cause)
        if last is not None and same and stretch.start_ns <= last.end_ns:
            result[-1] = _joined(last, stretch)
        else:
            result.append(stretch)
    return sorted(result, key=lambda one: (one.start_ns, one.cause))


def _joined(a: Stretch, b: Stretch) -> Stretch:
    texts = list(dict.fromkeys([*a.evidence.split("; and "), b.evidence]))
    return replace(
        a,
        end_ns=max(a.end_ns, b.end_ns),
        evidence="; and ".join(texts[:2]),
        uncertain_s=max(a.uncertain_s, b.uncertain_s),
    )


def _runs(seen: BoolArray) -> list[slice]:
    """Runs of consecutive true values."""
    steps = np.diff(np.concatenate([[0], seen.astype(np.int8), [0]]))
    starts, stops = np.flatnonzero(steps == 1), np.flatnonzero(steps == -1)
    return [slice(int(a), int(b)) for a, b in zip(starts, stops, strict=True)]


def _stretches(
    t_ns: IntArray,
    seen: BoolArray,
    cause: str,
    words: Callable[[slice], str],
    after: bool = True,
) -> list[Stretch]:
    """Reads in a row that show something, from the read before them to the one after.

    When it began between two reads is not known: the stretch holds all of the time in which it may
    have lasted, so that no slowed step is missed.
    """
    spacing = float(np.median(np.diff(t_ns))) * 1e-9 if len(t_ns) > 1 else 0.0
    return [
        Stretch(
            start_ns=int(t_ns[max(at.start - 1, 0)]),
            end_ns=int(t_ns[min(at.stop - (not after), len(t_ns) - 1)]),
            kind="throttled",
            cause=cause,
            evidence=words(at),
            uncertain_s=spacing,
        )
        for at in _runs(seen)
    ]


def _hertz(value: float) -> str:
    factor, unit = (1e-9, "GHz") if value >= 1e9 else (1e-6, "MHz")
    return f"{value * factor:.4g} {unit}"
