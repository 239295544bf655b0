"""Text of macOS's `powermetrics`: samples that begin with their time, each the mean over the time that it names.

What it says of power is Apple's estimate of the chip's parts (its manual page: "should not be used for
any comparison between devices"); displays, disks and the rest of the machine are in none of them.
"""

from __future__ import annotations

import re
import statistics
from collections import Counter
from dataclasses import replace
from datetime import datetime
from typing import Final

from wattstep.formats.recording import FormatError, Recording
from wattstep.formats.rows import NO_END, Row, gather, times_of, wall_ns, whole_lines
from wattstep.schema.channel import Channel, Domain

NAME: Final = "powermetrics"
ESTIMATES: Final = (
    "powers of powermetrics are estimates of the chip's parts, and no total of the machine"
)
SUM: Final = "a sum of parts that are there themselves"
_NOTE: Final = "estimated by the operating system, as a mean over the interval before"
_SAMPLE: Final = re.compile(
    r"\*\*\* Sampled system activity \((?P<time>[^()]{10,40})\) \((?P<ms>[0-9.]{1,12}) ?ms elapsed\)"
)
_POWER: Final = re.compile(
    r"(?P<part>[A-Z][\w ]{1,20}?) Power(?P<of>[^:\n]{0,40}): (?P<number>[0-9.]{1,12}) ?(?P<unit>mW|W)"
)
_INTEL: Final = re.compile(
    r"Intel energy model derived package power[^:\n]{0,40}: (?P<number>[0-9.]{1,12}) ?W"
)
_CLOCK: Final = re.compile(r"GPU (?:HW )?active frequency: +(?P<number>[0-9]{1,6}) MHz")
_BUSY: Final = re.compile(r"GPU (?:HW )?active residency: +(?P<number>[0-9.]{1,8})%")
_PARTS: Final[dict[str, tuple[str, Domain]]] = {
    "CPU": ("cpu", "cpu"), "GPU": ("gpu", "gpu"), "ANE": ("ane", "soc"), "DRAM": ("dram", "memory"),
}  # fmt: skip
_SUMS: Final = ("Combined", "Package", "SoC")


def parse(data: bytes) -> Recording:
    """Reads the samples; a last one that does not end may be cut, and is left out.

    Raises:
        FormatError: A sample has no time, or there is no value.
    """
    whole, cut = whole_lines(data)
    text = whole.decode("utf-8-sig", errors="replace")
    begins = list(_SAMPLE.finditer(text))
    rows: list[Row] = []
    lasting: list[float] = []
    ignored: Counter[str] = Counter()
    for at, begin in enumerate(begins):
        end = begins[at + 1].start() if at + 1 < len(begins) else len(text)
        line = text.count("\n", 0, begin.start()) + 1
        values = _values(text[begin.end() : end], ignored)
        if values:
            rows.append(Row(line=line, t_ns=_time(begin["time"], line), values=values))
            lasting.append(float(begin["ms"]) * 1e-3)
    if not rows:
        raise FormatError(
            NAME, 1, "it says nothing of power: record with --samplers cpu_power,gpu_power",
            id="no-power-column",
        )  # fmt: skip
    times = times_of(rows, NAME, None)
    channels, t_ns, value = gather(rows, times, fill=True)
    window_s = statistics.median(lasting)
    return Recording(
        format=NAME,
        channels=tuple(replace(channel, window_s=window_s) for channel in channels),
        t_ns=t_ns,
        value=value,
        clock=times.clock,
        notes=(ESTIMATES, *times.notes, *[NO_END] * cut),
        ignored=dict(ignored + Counter({NO_END: int(cut)})),
    )


def _time(words: str, line: int) -> int:
    try:
        moment = datetime.strptime(words, "%a %b %d %H:%M:%S %Y %z")
        return wall_ns(moment.replace(tzinfo=None), offset=moment.utcoffset())
    except ValueError as error:
        raise FormatError(NAME, line, f"{words[:40]!r} is no time", id="not-a-time") from error


def _values(text: str, ignored: Counter[str]) -> list[tuple[Channel, float]]:
    values: dict[str, tuple[Channel, float]] = {}
    for match in _POWER.finditer(text):
        name = match["part"].strip()
        if name in _SUMS:
            ignored[f"{name} Power: {SUM}"] += 1
        elif name in _PARTS and not match["of"].strip():
            word, domain = _PARTS[name]
            factor = 1e-3 if match["unit"] == "mW" else 1.0
            values[word] = (_power(word, domain), float(match["number"]) * factor)
        else:
            ignored[f"{name[:20]} Power: no part that is known"] += 1
    if (intel := _INTEL.search(text)) is not None:
        values["package"] = (_power("package", "cpu"), float(intel["number"]))
    if (clock := _CLOCK.search(text)) is not None:
        values["clock"] = (_gauge("gpu.frequency", "Hz", "frequency"), float(clock["number"]) * 1e6)
    if (busy := _BUSY.search(text)) is not None:
        share = min(float(busy["number"]) * 1e-2, 1.0)
        values["busy"] = (_gauge("gpu.utilization", "ratio", "gpu_utilization"), share)
    return list(values.values())


def _power(word: str, domain: Domain) -> Channel:
    return Channel(
        name=f"{word}.power", unit="W", kind="gauge", domain=domain, role="power_part", source=NAME,
        status="modelled", note=_NOTE,
    )  # fmt: skip


def _gauge(name: str, unit: str, role: str) -> Channel:
    return Channel(name=name, unit=unit, kind="gauge", domain="gpu", role=role, source=NAME)
