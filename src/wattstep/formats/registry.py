"""Registry of recording formats, chosen by content: replay and import ask here."""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from wattstep.errors import InvalidValueError
from wattstep.formats.recording import Recording
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
_PERFETTO: Final = (
    rb"\A(?:\x0a(?=[\x00-\xff]{0,64}[\x00-\x08\x0e-\x1f])|(?:\s*#[^\n]*\n|\s)*packet\s*:?\s*\{)"
)

FORMATS: Final = (
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
        known_by=re.compile(_PERFETTO),
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
    data = read_bytes(path, purpose)
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
    if isinstance(content, Trace):
        return form, _counters(path, content)
    return form, _whole_machine(content)


def read_bytes(path: Path, purpose: str = "read") -> bytes:
    """A file's bytes, unpacked where it is gzipped.

    Raises:
        InvalidValueError: It cannot be read.
    """
    try:
        data = path.read_bytes()
        return gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InvalidValueError(
            f"{path} cannot be unpacked, it is cut or damaged: copy it again",
            id="damaged-recording",
        ) from error
    except OSError as error:
        raise InvalidValueError(
            f"{path} cannot be {purpose}: {(error.strerror or str(error)).lower()}",
            id="unreadable-recording",
        ) from error


def format_of(data: bytes) -> Format | None:
    """The format of which the text or bytes are, by their begin; None: of none that is known."""
    return next((form for form in FORMATS if form.known_by.search(data[:LOOK_BYTES])), None)


def _parser(form: Format) -> Callable[..., Recording | Trace]:
    module, _, function = form.read.partition(":")
    parser: Callable[..., Recording | Trace] = getattr(require(module), function)
    return parser


def _counters(path: Path, trace: Trace) -> Recording:
    if trace.counters is None or not trace.counters.values:
        raise InvalidValueError(
            f"{path.name} is a {trace.format} without sensor values: give it as --trace",
            id="no-sensor-values",
        )
    return trace.counters


def _whole_machine(recording: Recording) -> Recording:
    channels = tuple(
        replace(channel, role="power_total") if channel.role == "meter_power" else channel
        for channel in recording.channels
    )
    return replace(recording, channels=channels)
