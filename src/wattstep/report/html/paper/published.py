"""Values that the paper's text states, by figure; read from `published.toml`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

# The paper's own digits: no more, and none dropped.
_WRITTEN = {
    "times": (1.0, "{:g} ×"), "points": (100.0, "{:g} points"), "ratio": (100.0, "{:.4g} %"),
    "B": (1e-9, "{:g} GB"), "samples/s": (1.0, "{:,g} samples/s"),
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Published:
    """A number of the paper.

    Attributes:
        figure: The figure that it belongs to.
        what: Quantity.
        value: The number, or the least of several.
        unit: As of figures; or "times", or "points" (of a ratio).
        place: Where in the paper it stands.
        high: The greatest of several, or None.
        model: In the paper's words, or "" where it is of several.
        workload: Model in the words of `wattstep suite`, or "".
        quantity: The metric that it is to be set beside, or "".
        batch: Batch size, or None.
        day: Of a daily training, or None.
        growth: True if it is the ratio of two batch sizes.
    """

    figure: int
    what: str
    value: float
    unit: str
    place: str
    high: float | None = None
    model: str = ""
    workload: str = ""
    quantity: str = ""
    batch: int | None = None
    day: int | None = None
    growth: bool = False

    @property
    def text(self) -> str:
        """As the paper says it: "81.6 %", "2.2 to 10.5 ×"."""
        if self.high is None:
            return self._written(self.value)
        low, high = self._written(self.value), self._written(self.high)
        return f"{low.partition(' ')[0]} to {high}"

    def _written(self, value: float) -> str:
        factor, pattern = _WRITTEN[self.unit]
        return pattern.format(factor * value)


@cache
def _document() -> dict[str, Any]:
    own = files("wattstep.report.html.paper") / "published.toml"
    document: dict[str, Any] = tomllib.loads(own.read_text(encoding="utf-8"))
    return document


def label() -> str:
    """Label that tells published values from the user's own."""
    return str(_document()["label"])


def source() -> str:
    """The paper."""
    return str(_document()["source"])


@cache
def published(figure: int) -> Sequence[Published]:
    """The numbers that belong to a figure, in the order of the file."""
    names = _document()["names"]
    return tuple(
        Published(**row, workload=names.get(row.get("model"), ""))
        for row in _document()["values"]
        if row["figure"] == figure
    )
