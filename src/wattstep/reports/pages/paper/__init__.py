"""The figures of the TX2 paper (3 to 10), drawn from the runs of a report, one file a figure."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from wattstep.reports.pages.paper.drawn import Drawn, NotDrawn
    from wattstep.reports.pages.paper.readings import Readings

# A figure is a file with a title and a function of the readings of a report.
FIGURES: Final[Mapping[int, str]] = MappingProxyType(
    {number: f"wattstep.reports.pages.paper.figure_{number}" for number in range(3, 11)}
)


def title_of(number: int) -> str:
    """What a figure of the paper shows."""
    return str(_module(number).TITLE)


def draw(number: int, readings: Readings) -> Drawn | NotDrawn:
    """A figure of the paper on some runs."""
    found: Drawn | NotDrawn = _module(number).draw(readings)
    return found


def _module(number: int) -> Any:
    return importlib.import_module(FIGURES[number])
