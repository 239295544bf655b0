"""Reports of nvidia-smi: whole ones, as `-q -x` writes them in XML."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Final

from wattstep.formats.nvidia_smi_values import (
    KEPT,
    NO_QUANTITY,
    QUANTITIES,
    Gpu,
    Log,
    channel_of,
    possible,
    reason_bits,
    reasons,
    si_value,
)
from wattstep.formats.recording import FormatError
from wattstep.formats.rows import Row, wall_ns

XML: Final = "nvidia-smi XML"
CUT_REPORT: Final = "the report that begins at line {} is cut and was left out"
ELEMENTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "power_readings/power_draw": "draw",
        "gpu_power_readings/power_draw": "draw",
        "gpu_power_readings/average_power_draw": "average",
        "gpu_power_readings/instant_power_draw": "instant",
        "power_readings/enforced_power_limit": "power_limit",
        "gpu_power_readings/current_power_limit": "power_limit",
        "temperature/gpu_temp": "temperature",
        "temperature/memory_temp": "memory_temperature",
        "utilization/gpu_util": "load", "utilization/memory_util": "memory_load",
        "utilization/encoder_util": "encoder", "utilization/decoder_util": "decoder",
        "utilization/jpeg_util": "jpeg", "utilization/ofa_util": "ofa",
        "fb_memory_usage/total": "total", "fb_memory_usage/used": "used",
        "fb_memory_usage/free": "free", "fb_memory_usage/reserved": "reserved",
        "clocks/sm_clock": "sm_clock", "clocks/mem_clock": "memory_clock",
        "clocks/graphics_clock": "graphics_clock", "clocks/video_clock": "video_clock",
        "fan_speed": "fan",
    }
)  # fmt: skip
LIMIT_ELEMENTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "temperature/gpu_temp_slow_threshold": "temperature",
        "max_clocks/sm_clock": "sm_clock", "max_clocks/mem_clock": "memory_clock",
        "max_clocks/graphics_clock": "graphics_clock", "max_clocks/video_clock": "video_clock",
    }
)  # fmt: skip
MONTHS: Final = "JanFebMarAprMayJunJulAugSepOctNovDec"

_QUANTITY = re.compile(r"-?[0-9.]{1,20} [A-Za-z%/]{1,6}")
_XML_STAMP = re.compile(
    r"[A-Z][a-z]{2} (?P<month>[A-Z][a-z]{2}) +(?P<day>[0-9]{1,2}) "
    r"(?P<clock>[0-9]{2}:[0-9]{2}:[0-9]{2}) (?P<year>[0-9]{4})"
)
_DOCTYPE = re.compile(r"<!DOCTYPE nvidia_smi_log SYSTEM \"[\w.-]{1,64}\">", re.ASCII)
_DECLARATION = re.compile(r"<\?xml version=\"1\.[01]\"[^<>]{0,60}\?>")
_END = "</nvidia_smi_log>"


def read_reports(text: str) -> Log:
    """Reports one after the other, as `--loop` writes them.

    Raises:
        FormatError: They are damaged, or the first one has no end.
    """
    file = Log()
    line = 1
    *reports, tail = text.split(_END)
    for report in reports:
        _take_report(file, report + _END, line)
        line += report.count("\n")
    if tail.strip():
        if not reports:
            raise FormatError(
                XML, text.count("\n") + 1, "the report does not end", id="unfinished-report"
            )
        begins = line + _leading_lines(tail)
        file.notes[CUT_REPORT.format(begins)] = None
    return file


def _take_report(file: Log, text: str, line: int) -> None:
    root = _tree(text, line)
    stamp = root.findtext("timestamp")
    t_ns = _xml_stamp(stamp.strip(), line) if stamp else None
    for place, element in enumerate(root.findall("gpu")):
        gpu = file.gpu(element.get("id") or str(place))
        pairs = [
            (channel_of(gpu.index, QUANTITIES[key], f"nvidia-smi {path}"), value)
            for path, key, value in _leaves(file, gpu, element, line)
        ]
        bits = _xml_reasons(element, line, file.ignored)
        if bits is not None:
            pairs.extend(reasons(gpu.index, bits))
        gpu.rows.append(Row(line=line, t_ns=t_ns, values=pairs))


def _tree(text: str, line: int) -> ET.Element:
    """The elements. Entities are never expanded: only nvidia-smi's own DOCTYPE is let through."""
    lean = _DOCTYPE.sub("", _DECLARATION.sub("", text.replace("\r", ""), count=1), count=1)
    if "<!DOCTYPE" in lean or "<!ENTITY" in lean:
        raise FormatError(
            XML, line, "it declares a document type that nvidia-smi does not", id="document-type"
        )
    begins = line + _leading_lines(lean)
    try:
        return ET.fromstring(lean.strip())
    except ET.ParseError as error:
        at = begins + error.position[0] - 1
        raise FormatError(XML, at, str(error).partition(":")[0]) from None


def _leading_lines(text: str) -> int:
    return text[: len(text) - len(text.lstrip())].count("\n")


def _leaves(
    file: Log, gpu: Gpu, element: ET.Element, line: int
) -> Iterator[tuple[str, str, float]]:
    """Values (path, quantity, number); limits are noted, other quantities counted."""
    seen = set()
    for path, text in _paths(element):
        key, limited = ELEMENTS.get(path), LIMIT_ELEMENTS.get(path)
        if key is not None:
            if key in seen:
                raise FormatError(XML, line, f"{path} stands there twice")
            seen.add(key)
            number = si_value(text, "", QUANTITIES[key].unit, line)
            yield path, key, possible(number, key, path, file.ignored)
        elif limited is not None:
            quantity = QUANTITIES[limited]
            number = si_value(text, "", quantity.unit, line)
            if math.isfinite(number):
                gpu.limits[quantity.word] = number
                file.ignored[KEPT.format(path)] += 1
        elif _QUANTITY.fullmatch(text):
            file.ignored[NO_QUANTITY.format(path)] += 1


def _paths(element: ET.Element) -> Iterator[tuple[str, str]]:
    """Each element without children: its path below, and its text."""
    stack = [("", child) for child in reversed(element)]
    while stack:
        above, item = stack.pop()
        path = f"{above}{item.tag}"
        if len(item):
            stack.extend((f"{path}/", child) for child in reversed(item))
        else:
            yield path, (item.text or "").strip()


def _xml_reasons(element: ET.Element, line: int, ignored: Counter[str]) -> float | None:
    """As `reason_bits`; a section without contents does not tell."""
    for section in ("clocks_throttle_reasons", "clocks_event_reasons"):
        node = element.find(section)
        if node is not None:
            cells = {child.tag: (child.text or "").strip() for child in node}
            return reason_bits(cells, line, ignored) if cells else math.nan
    return None


def _xml_stamp(text: str, line: int) -> int:
    match = _XML_STAMP.fullmatch(text)
    try:
        if match is None:
            raise ValueError(text)
        month = MONTHS.index(match["month"]) // 3 + 1
        day = f"{match['year']}-{month}-{match['day']} {match['clock']}"
        return wall_ns(datetime.strptime(day, "%Y-%m-%d %H:%M:%S"))
    except ValueError:
        raise FormatError(
            XML, line, f"{text[:30]!r} is no date and time", id="not-a-time"
        ) from None
