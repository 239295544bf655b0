"""Texts that differ in numbers alone, told as one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

_NUMBER: Final = re.compile(r"\d[\d,]*(?:\.\d+)?")


def without_numbers(text: str) -> str:
    """The text with a mark in place of each number: alike for texts that differ in numbers alone."""
    return _NUMBER.sub("#", text)


def with_ranges(texts: Sequence[str]) -> str:
    """Texts that differ in numbers alone as one: "1.5 to 1.7 of 2 cores"."""
    columns = zip(*(_NUMBER.findall(text) for text in texts), strict=True)
    ranges = iter([_range(column) for column in columns])
    return _NUMBER.sub(lambda _: next(ranges), texts[0])


def _range(numbers: Sequence[str]) -> str:
    least, *_, most = sorted([*numbers, numbers[0]], key=lambda text: float(text.replace(",", "")))
    return least if least == most else f"{least} to {most}"
