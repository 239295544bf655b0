"""Values that papers state, by figure; read from a TOML file for each paper."""

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
    "B": (1e-9, "{:g} GB"), "samples/s": (1.0, "{:,g} samples/s"), "s": (1e3, "{:,g} ms"),
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Published:
    """A number of the paper.

    Attributes:
        figure: The figure that it belongs to; those of other papers than the first have names.
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
        label: Of its paper, that tells published values from the user's own.
    """

    figure: int | str
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
    label: str = ""

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


TX2 = "published"
CAI = "cai"
_PAPERS = (TX2, CAI)  # by the name of the file


@cache
def _document(paper: str) -> dict[str, Any]:
    own = files("wattstep.report.html.paper") / f"{paper}.toml"
    document: dict[str, Any] = tomllib.loads(own.read_text(encoding="utf-8"))
    return document


def label(paper: str = TX2) -> str:
    """Label that tells published values from the user's own."""
    return str(_document(paper)["label"])


def source(paper: str = TX2) -> str:
    """The paper."""
    return str(_document(paper)["source"])


def workloads_of(paper: str) -> frozenset[str]:
    """Its networks, in the words of `wattstep suite`."""
    return frozenset(_document(paper)["names"].values())


@cache
def published(figure: int | str) -> Sequence[Published]:
    """The numbers that belong to a figure, in the order of the file."""
    return tuple(
        Published(
            **row, workload=_document(paper)["names"].get(row.get("model"), ""), label=label(paper)
        )
        for paper in _PAPERS
        for row in _document(paper)["values"]
        if row["figure"] == figure
    )
