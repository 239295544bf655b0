"""Output of nvidia-smi: tables of `--query-gpu` (CSV) and whole reports (`-q -x`, XML)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from wattstep.formats.nvidia_smi_reports import XML, read_reports
from wattstep.formats.nvidia_smi_table import NO_TEXT, read_table
from wattstep.formats.nvidia_smi_values import NAME, Gpu, Log
from wattstep.formats.recording import FormatError, Recording
from wattstep.formats.rows import Row, gather, in_order, times_of
from wattstep.schema.channel import Channel

NO_ZONE: Final = "its times have no time zone: they are read as UTC"


def parse(data: bytes, *, interval_s: float | None = None) -> Recording:
    """Reads a table or reports, whichever it is.

    Args:
        data: The file.
        interval_s: How far apart rows are, where they have no time.

    Raises:
        FormatError: It is neither, or damaged. Its end may be cut, and of a table with times a
            few rows may be damaged: they are left out, with a note.
        InvalidValueError: There is no clock, and `interval_s` is missing.
    """
    text = _text(data)
    if text.lstrip().startswith("<"):
        return _recording(XML, read_reports(text), interval_s)
    return _recording(NAME, read_table(text), interval_s)


def _text(data: bytes) -> str:
    """The file as text; of a table, bytes that are no text become `NO_TEXT`: one row is damaged."""
    text = data.decode("utf-8-sig", errors="replace")
    if not text.strip():
        raise FormatError(NAME, 1, "there is nothing")
    if text.lstrip().startswith("<") and NO_TEXT in text:
        line = text.count("\n", 0, text.index(NO_TEXT)) + 1
        raise FormatError(XML, line, "it holds bytes that are no text", id="bytes-not-text")
    return text


def _recording(format_name: str, file: Log, interval_s: float | None) -> Recording:
    """Each GPU has times of its own: they are asked one after the other."""
    channels: list[Channel] = []
    t_ns: dict[str, np.ndarray] = {}
    value: dict[str, np.ndarray] = {}
    clock = "counted"
    for gpu in file.gpus.values():
        rows, astray = in_order(gpu.rows)
        times = times_of(rows, format_name, interval_s)
        own_channels, t_by_name, v_by_name = gather(_power_first(gpu, rows), times, fill=True)
        channels.extend(own_channels)
        t_ns.update(t_by_name)
        value.update(v_by_name)
        file.notes.update(dict.fromkeys((*astray, *times.notes)))
        clock = times.clock
    if not channels:
        raise FormatError(
            format_name,
            1,
            "; ".join([*file.notes, "it has no values of any GPU"]),
            id="no-gpu-values",
        )
    if clock == "wall":
        file.notes[NO_ZONE] = None
    return Recording(
        format=format_name,
        channels=tuple(channels),
        t_ns=t_ns,
        value=value,
        clock=clock,
        notes=tuple(file.notes),
        ignored=dict(file.ignored),
    )


def _power_first(gpu: Gpu, rows: Sequence[Row]) -> list[Row]:
    """Its rows with limits known, and one of the powers as the power of the card.

    That is the instant one where it was ever read, else what nvidia-smi calls the draw, else the
    average.
    """
    read = {c.name for row in rows for c, v in row.values if math.isfinite(v)}
    words = ("instant_power", "power", "average_power")
    best = next((w for w in words if f"gpu{gpu.index}.{w}" in read), "power")

    def changed(channel: Channel) -> Channel:
        word = channel.name.partition(".")[2]
        limit = gpu.limits.get(word)
        if word == best:
            return replace(channel, name=f"gpu{gpu.index}.power", role="power_part")
        if word == "power":
            return replace(channel, name=f"gpu{gpu.index}.power_draw", role="power_average")
        return replace(channel, limit=limit)

    made: dict[str, Channel] = {}
    return [
        replace(
            row,
            values=[(made.setdefault(c.name, changed(c)), v) for c, v in row.values],
        )
        for row in rows
    ]
