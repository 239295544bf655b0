"""Registry of recording formats, chosen by content: replay and import ask here."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from wattstep.errors import InvalidValueError
from wattstep.formats.kineto.unpacking import Unpacking
from wattstep.formats.mistaken import UTF16, mistaken
from wattstep.formats.negative import without_negative
from wattstep.formats.own_rows import own_rows
from wattstep.formats.plausible import plausible
from wattstep.formats.recording import Recording
from wattstep.formats.rows import NO_VALUE
from wattstep.formats.trace import Trace
from wattstep.schema.extras import require

LOOK_BYTES: Final = 1 << 16  # of a file, to tell its format


@dataclass(frozen=True, kw_only=True)
class Format:
    """A format of recordings.

    Attributes:
        name: For readers.
        known_by: What its first 64 KiB hold; the first format in the list that fits is taken.
        read: "module:function" that parses it: into a `Recording`, or into a `Trace` with counters.
        takes: Which of the settings its parser takes as well: the "interval_s" of the lines of a
            log without a clock, the "board" whose rails they are, the "units" of its columns.
        by_path: Its parser takes the path instead of the bytes, because such files are large.
    """

    name: str
    known_by: re.Pattern[bytes]
    read: str
    takes: tuple[str, ...] = ()
    by_path: bool = False


# The header of a power meter's log names, at the begin of its cells, a time and watts, or volts and
# amperes. Watts with their unit in brackets, "gpu [W]", are plain CSV, whose names are channels; so
# are watts of a part, a limit or a share: "power_gpu_W", "power_limit_W", "power (%)".
_PLAIN: Final = rb"(?:main|avg|average|mean|total|system|wall|input|active|real|draw|measured)"
_CELL: Final = rb"(?:[^\n]*[,;\t])?[ \"]*(?:" + _PLAIN + rb"[ _.-]{1,3}){0,3}"
_WATTS: Final = (
    _CELL
    + rb"(?:power|watts?|p)(?:[ _.(\[-]{1,3}(?:(?:m|u|\xc2\xb5|\xce\xbc|k)?w|watts?|consumption|"
    + _PLAIN
    + rb")[)\]]?){0,3}[ )\]\"]{0,3}(?=[,;\t\r\n]|\Z)"
)
_METER: Final = (
    rb"(?i)\A(?:\xef\xbb\xbf)?(?:[ \t]*(?:#[^\n]*)?\r?\n)*(?![^\n]*\[[^\]\n]{0,2}w\])"
    rb"(?=" + _CELL + rb"(?:timestamp|datetime|time|date|elapsed|seconds|t)(?![a-z]))"
    rb"(?=" + _WATTS + rb"|" + _CELL + rb"(?:voltage|volts?|vbus|v|u)(?![a-z]))"
    rb"(?=" + _WATTS + rb"|" + _CELL + rb"(?:current|amperes?|amps?|i)(?![a-z]))"
)
_TIME: Final = rb"\b(?:t|time|seconds|timestamp)(?:_(?:s|ms|us|ns|min|h))?\b"
# Packets by their length, with a byte that no text has near the begin; or the text form.
PERFETTO: Final = (
    rb"\A(?:\x0a(?=[\x00-\xff]{0,64}[\x00-\x08\x0e-\x1f])|(?:\s*#[^\n]*\n|\s)*packet\s*:?\s*\{)"
)

_JSON: Final = re.compile(rb"\A\s*(?:\{|\[\s*[\[{])")
# A Joulescope's header is a comment that names no unit; its values are in A, V, W, C and J.
_JOULESCOPE: Final = re.compile(rb"\A#time,(?=[^\n]*\bpower\b)[a-z0-9_,]+\r?\n")
_JOULESCOPE_UNITS: Final = {
    b"time": b"s", b"current": b"A", b"voltage": b"V", b"power": b"W", b"charge": b"C", b"energy": b"J",
}  # fmt: skip
_TIME_WORD: Final = re.compile(
    rb"(?i)(?:t|time|seconds|timestamp|elapsed)(?:_(?:s|ms|us|ns|min|h))?\Z"
)
_NUMBER: Final = re.compile(rb"[-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?")
_LOOK_UTF16: Final = 200  # bytes: of text in Latin letters every other is 0
_LOOK_LINES: Final = 8  # of a table that blanks separate

FORMATS: Final = (
    Format(
        name="nvidia-smi dmon",
        known_by=re.compile(
            rb"(?m)\A\s*#\s*(?:[\w:]+[,\s]+){0,2}gpu[,\s]+(?:[a-z0-9]+[,\s]+)*?(?:pwr|sm|gtemp|mclk|fb)\b"
        ),
        read="wattstep.formats.nvidia_dmon:parse",
        takes=("interval_s",),
    ),
    Format(
        name="powermetrics",
        known_by=re.compile(rb"\*\*\* Sampled system activity \("),
        read="wattstep.formats.powermetrics:parse",
    ),
    Format(
        name="perf stat",
        known_by=re.compile(rb"(?m)^\s*\d+\.\d{3,9}[,;\s][^\n]{1,60}Joules[,;\s]\s*power/energy-"),
        read="wattstep.formats.perf_stat:parse",
    ),
    Format(
        name="tegrastats",
        known_by=re.compile(rb"\bRAM \d+/\d+ ?MB"),
        read="wattstep.formats.tegrastats:parse",
        takes=("interval_s", "board"),
    ),
    Format(
        name="nvidia-smi",
        known_by=re.compile(
            rb"<nvidia_smi_log|\A\s*[^\n]*\b(?:power\.draw|(?:utilization|temperature)\.gpu)\b"
        ),
        read="wattstep.formats.nvidia_smi:parse",
        takes=("interval_s",),
    ),
    Format(
        name="Perfetto trace",
        known_by=re.compile(PERFETTO),
        read="wattstep.formats.perfetto_trace:read",
        by_path=True,
    ),
    Format(
        name="power meter",
        known_by=re.compile(_METER),
        read="wattstep.formats.power_meter:parse",
        takes=("units",),
    ),
    Format(
        name="plain CSV",
        known_by=re.compile(
            rb"(?im)^\s*[^#\n]*" + _TIME + rb"[^\n]*,|\A[^#,\n]*" + _TIME + rb"[^,\n]*[;\t]"
        ),
        read="wattstep.formats.plain_csv:parse",
        takes=("units",),
    ),
)


def read_log(
    path: Path,
    *,
    interval_s: float | None = None,
    board: str | None = None,
    units: Sequence[str] = (),
    purpose: str = "read",
) -> tuple[Format, Recording]:
    """Recording of a file of sensor values, whatever its format; one that is gzipped is unpacked.

    The log of an external power meter stands for the whole machine: its role is "power_total".

    Args:
        path: The file.
        interval_s: Of its lines in s, where they have no clock.
        board: Whose rails they are; only formats that decide line by line use it.
        units: Of columns whose heading says none: "mW" for all of them, "NAME=mW" for one.
        purpose: What it cannot be, where it is not there: "read", "replayed".

    Returns:
        Its format, and what it holds.

    Raises:
        InvalidValueError: It is not there, of no known format, damaged, or without sensor values.
    """
    data = as_table(read_bytes(path, purpose))
    if what := mistaken(data):
        raise InvalidValueError(f"{path} is {what}", id="unknown-recording")
    form = format_of(data)
    if form is None:
        known = ", ".join(form.name for form in FORMATS)
        raise InvalidValueError(
            f"{path} is no recording that is known here: {known}, or a run", id="unknown-recording"
        )
    settings: dict[str, Any] = {
        "interval_s": interval_s,
        "board": board,
        "units": tuple(units) or None,
    }
    if units and "units" not in form.takes:
        raise InvalidValueError(
            f"{path} ({form.name}) says its units itself: leave --unit out", id="needless-unit"
        )
    given = {key: settings[key] for key in form.takes if settings[key] is not None}
    content = _parser(form)(path if form.by_path else data, **given)
    recording = _counters(path, content) if isinstance(content, Trace) else _whole_machine(content)
    return form, without_negative(plausible(own_rows(recording), path.name), path.name)


def read_bytes(path: Path, purpose: str = "read") -> bytes:
    """A file's bytes, unpacked where it is gzipped.

    Raises:
        InvalidValueError: It cannot be read, or unpacks to far more than a log does.
    """
    try:
        unpacking = Unpacking(path)
        data = b"".join(unpacking.pieces())
    except OSError as error:
        raise InvalidValueError(
            f"{path} cannot be {purpose}: {(error.strerror or str(error)).lower()}",
            id="unreadable-recording",
        ) from error
    if unpacking.damage:
        raise InvalidValueError(
            f"{path} cannot be unpacked, it is cut or damaged: copy it again",
            id="damaged-recording",
        )
    return data


def format_of(data: bytes) -> Format | None:
    """The format of which the text or bytes are, by their begin; None: of none that is known."""
    head = data[:LOOK_BYTES]
    if _JSON.match(head):  # whatever its texts look like
        return None
    return next((form for form in FORMATS if form.known_by.search(head)), None)


def as_table(data: bytes) -> bytes:
    """A log in UTF-8 whose cells are separated by more than blanks; others as they are.

    PowerShell writes UTF-16, and scripts put numbers beside each other: what is a number in every
    line below as many headings, or names them in a comment, is a table all the same.
    """
    if encoding := _utf16(data):
        data = data.decode(encoding, errors="replace").encode()
    if (header := _JOULESCOPE.match(data)) is not None:
        names = header[0][1:].strip().split(b",")
        units = (
            b"_" + _JOULESCOPE_UNITS[each] if each in _JOULESCOPE_UNITS else b"" for each in names
        )
        cells = (name + unit for name, unit in zip(names, units, strict=True))
        return b",".join(cells) + b"\n" + data[header.end() :]
    lines = [line.split() for line in data[:LOOK_BYTES].splitlines()[:_LOOK_LINES] if line.strip()]
    headings, rows = (lines[0], lines[1:]) if lines else ([], [])
    if headings and headings[0].startswith(b"#"):
        headings = [each for each in (headings[0][1:], *headings[1:]) if each]
    alike = len(headings) > 1 and len(rows) > 0 and all(len(row) == len(headings) for row in rows)
    if not alike or re.search(rb"[,;\t]", b"".join(headings)) or not _TIME_WORD.match(headings[0]):
        return data
    if not all(_number_or_none(cell) for row in rows for cell in row):
        return data
    below = [b",".join(line.split()) for line in data.lstrip(b"\r\n ").split(b"\n")[1:]]
    return b"\n".join([b",".join(headings), *below])


def _number_or_none(cell: bytes) -> bool:
    return bool(_NUMBER.fullmatch(cell)) or cell.decode(errors="replace").lower() in NO_VALUE


def _utf16(data: bytes) -> str:
    """The encoding of text in UTF-16, with its mark or without; "" of any other."""
    if data.startswith(UTF16):
        return "utf-16"
    head = data[:_LOOK_UTF16]
    halves = {"utf-16-le": head[1::2], "utf-16-be": head[::2]}
    text = len(head) > 1 and head.count(0) == len(head) // 2
    return next((name for name, half in halves.items() if text and not any(half)), "")


def _parser(form: Format) -> Callable[..., Recording | Trace]:
    module, _, function = form.read.partition(":")
    parser: Callable[..., Recording | Trace] = getattr(require(module), function)
    return parser


def _counters(path: Path, trace: Trace) -> Recording:
    if trace.counters is None or not trace.counters.values:
        if trace.events is None or not len(trace.events):
            raise InvalidValueError(
                f"{path.name} is a {trace.format} with neither sensor values nor operations: record "
                "again, with power rails or counters, or with track events, among its data sources",
                id="empty-recording",
            )
        raise InvalidValueError(
            f"{path.name} is a {trace.format} without sensor values: give it as --trace",
            id="no-sensor-values",
        )
    return trace.counters


_OF_METER: Final = {"meter_power": "power_total", "meter_energy": "energy_total"}


def _whole_machine(recording: Recording) -> Recording:
    channels = tuple(
        replace(channel, role=_OF_METER.get(channel.role, channel.role))
        for channel in recording.channels
    )
    return replace(recording, channels=channels)
