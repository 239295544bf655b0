"""Common parts of the CSV of nvprof and nsys: lines, numbers with units, names of GPU work."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Final

from wattstep.schema.run_documents import DeviceFacts

# Powers of ten to ns.
TIME_UNITS: Final[Mapping[str, int]] = {
    "s": 9, "sec": 9, "ms": 6, "msec": 6, "us": 3, "µs": 3, "usec": 3, "ns": 0, "nsec": 0,
}  # fmt: skip
_NUMBER: Final = re.compile(r"[+-]?\d{1,18}(?:\.\d{0,18})?(?:[eE][+-]?\d{1,2})?")
_DEVICE: Final = re.compile(r"(.*?)\s*\((\d{1,4})\)")
_RUNTIME: Final = re.compile(r"cu(?:da)?[A-Z]\w*")


def lines(data: bytes) -> Iterator[tuple[int, str]]:
    """The lines of a text with their numbers from 1; bytes that are no UTF-8 are replaced."""
    begin, number = 3 if data.startswith(b"\xef\xbb\xbf") else 0, 0
    while begin < len(data):
        end = data.find(b"\n", begin)
        end = len(data) if end < 0 else end
        number += 1
        yield number, data[begin:end].rstrip(b"\r").decode(errors="replace")
        begin = end + 1


def cells(text: str) -> list[str] | None:
    """The cells of one line; None: its quotes do not close, as in a line that was cut."""
    if '"' not in text:
        return text.split(",")
    try:
        (row,) = csv.reader([text], strict=True)
    except (csv.Error, ValueError):
        return None
    return row


def number(cell: str) -> Decimal:
    """A number as it is written.

    Raises:
        ValueError: It is none.
    """
    if not _NUMBER.fullmatch(cell):
        raise ValueError(f"{cell[:30]!r} is no number")
    return Decimal(cell)


def is_number(cell: str) -> bool:
    """True if a cell holds a number."""
    return _NUMBER.fullmatch(cell.strip()) is not None


def nanoseconds(cell: str, unit: str) -> int:
    """A time in ns, rounded to the nearest.

    Raises:
        ValueError: It is no number, or the unit none of time.
    """
    if unit == "ns" and cell.isdecimal() and len(cell) < 19:
        return int(cell)
    return int(number(cell).scaleb(_exponent(unit)).to_integral_value())


def _exponent(unit: str) -> int:
    if unit not in TIME_UNITS:
        raise ValueError(f"{unit[:20]!r} is no unit of time: s, ms, us, ns")
    return TIME_UNITS[unit]


def seconds(cell: str, unit: str) -> float | None:
    """A time in s; None where the cell is empty.

    Raises:
        ValueError: It is no number, or negative, or the unit none of time.
    """
    if not cell:
        return None
    value = number(cell)
    if value < 0:
        raise ValueError(f"{cell} {unit} is no duration")
    return float(value.scaleb(_exponent(unit) - 9))


def count(cell: str) -> int:
    """A number of calls.

    Raises:
        ValueError: It is none.
    """
    if not (cell.isdecimal() and len(cell) < 19):
        raise ValueError(f"{cell[:30]!r} is no number of calls")
    return int(cell)


def integer(cell: str) -> int | None:
    """An identifying number; None where the cell says none."""
    return int(cell) if cell.isdecimal() and len(cell) < 19 else None


def work_category(name: str) -> str:
    """Of work on a GPU, as both tools name it: "copy", "set" or "kernel"."""
    if name.startswith("["):
        lowered = name.lower()
        for word, category in (("memcpy", "copy"), ("memset", "set")):
            if word in lowered:
                return category
    return "kernel"


def is_runtime_call(name: str) -> bool:
    """True for a function of CUDA's driver or runtime (cuMemAlloc, cudaLaunchKernel)."""
    return _RUNTIME.match(name) is not None


class Devices:
    """GPUs as rows name them, "NVIDIA A100 (0)", by number.

    Attributes:
        models: By number.
    """

    def __init__(self) -> None:
        self.models: dict[int, str] = {}
        self._others: dict[str, int] = {}

    def processor(self, text: str) -> str:
        """ "gpu0" and so on; one without a number gets the next that is free."""
        match = _DEVICE.fullmatch(text)
        if match:
            index = int(match[2])
            self.models.setdefault(index, match[1])
        else:
            index = self._others.setdefault(text, max(self.models, default=-1) + 1)
            self.models.setdefault(index, text)
        return f"gpu{index}"

    def document(self) -> DeviceFacts:
        """The models in the order of their numbers, for `Trace.device`."""
        return (
            {"gpus": [self.models[index] for index in sorted(self.models)]} if self.models else {}
        )
