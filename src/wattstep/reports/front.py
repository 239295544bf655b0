"""The time-energy front of the workloads of a sweep: which configurations no other one beats in both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from wattstep.analysis.front import non_dominated
from wattstep.reports.pages.charts import Chart, series_color
from wattstep.reports.pages.plotly_text import inert
from wattstep.reports.values import Shown, is_figure, plain, quantity, scale_of, show

_HEIGHT = 320
_TELLING = {"threads": "{} threads", "precision": "{}", "device": "on {}", "state": "{}"}


@dataclass(frozen=True, kw_only=True)
class Point:
    """One way to train a workload.

    Attributes:
        title: What tells it apart, e.g. "batch 4, clock=1200MHz".
        seconds: Time of a sample in s.
        joules: Energy of a sample in J.
        energy: The same as a figure, with its status.
        power: Mean power, or None.
        on_front: Whether no other way is both quicker and cheaper.
        repeats: How many repetitions; the one of middle speed is shown.
    """

    title: str
    seconds: float
    joules: float
    energy: Shown
    power: Shown | None
    on_front: bool = False
    repeats: int = 1

    @property
    def time(self) -> str:
        """The time of a sample, to be read."""
        return quantity(self.seconds, "s")


@dataclass(frozen=True, kw_only=True)
class Front:
    """The ways to train one workload, the quickest first."""

    workload: str
    points: tuple[Point, ...]


def fronts(document: Mapping[str, Any]) -> list[Front]:
    """The front of each workload that was trained in at least two ways whose energy is known.

    Args:
        document: Of a sweep: `sweep` and `outcomes`.
    """
    by_workload: dict[str, dict[tuple[Any, ...], list[Mapping[str, Any]]]] = {}
    for outcome in document["outcomes"]:
        one = outcome["configuration"]
        if _cost(outcome) is not None:
            key = (one["batch_size"], *(one.get(name) for name in _TELLING))
            by_workload.setdefault(one["workload"], {}).setdefault(key, []).append(outcome)
    return [
        Front(workload=plain(name), points=_points(ways))
        for name, ways in by_workload.items()
        if len(ways) > 1
    ]


def front_chart(front: Front) -> Chart:
    """Energy over time of a sample, the front joined by a line."""
    time = scale_of(max(p.seconds for p in front.points), "s")
    energy = scale_of(max(p.joules for p in front.points), "J")
    best = [p for p in front.points if p.on_front]
    other = [p for p in front.points if not p.on_front]
    layout = {
        "height": _HEIGHT,
        "margin": {"l": 60, "r": 10, "t": 10, "b": 44},
        "xaxis": _axis("time of a sample", time.suffix),
        "yaxis": _axis("energy of a sample", energy.suffix),
        "showlegend": True,
        "legend": {"orientation": "h", "y": 1.12},
    }
    traces = [
        _trace("on the front", best, series_color(0), "lines+markers", time, energy),
        _trace("beaten in both", other, "--ink-soft", "markers", time, energy),
    ]
    return {"data": [t for t in traces if t["x"]], "layout": layout, "tools": False}


def _points(ways: Mapping[tuple[Any, ...], Sequence[Mapping[str, Any]]]) -> tuple[Point, ...]:
    differing = [n for n in range(len(next(iter(ways)))) if len({key[n] for key in ways}) > 1]
    points = sorted(
        (_point(key, outcomes, differing) for key, outcomes in ways.items()),
        key=lambda p: (p.seconds, p.joules),
    )
    marks = non_dominated([(p.seconds, p.joules) for p in points])
    return tuple(replace(p, on_front=mark) for p, mark in zip(points, marks, strict=True))


def _point(
    key: tuple[Any, ...], outcomes: Sequence[Mapping[str, Any]], differing: Sequence[int]
) -> Point:
    ranked = sorted(outcomes, key=lambda one: _cost(one) or (0.0, 0.0))
    middle = ranked[(len(ranked) - 1) // 2]
    seconds, joules = _cost(middle) or (0.0, 0.0)
    words = ["batch {}", *_TELLING.values()]
    said = [words[n].format(key[n] or "default") for n in differing]
    power = middle["figures"].get("mean_power")
    return Point(
        title=plain(", ".join(said)),
        seconds=seconds,
        joules=joules,
        energy=show(middle["figures"]["energy_per_sample"]),
        power=show(power) if is_figure(power) else None,
        repeats=len(outcomes),
    )


def _cost(outcome: Mapping[str, Any]) -> tuple[float, float] | None:
    """Time and energy of a sample, or None where one of them is not known."""
    throughput = (outcome["figures"].get("throughput") or {}).get("value")
    energy = (outcome["figures"].get("energy_per_sample") or {}).get("value")
    return (1 / throughput, float(energy)) if throughput and energy is not None else None


def _axis(title: str, suffix: str) -> dict[str, Any]:
    return {
        "title": {"text": title, "font": {"size": 11, "color": "--ink-soft"}},
        "ticksuffix": suffix,
        "rangemode": "tozero",
        "fixedrange": True,
    }


def _trace(
    name: str, points: Sequence[Point], color: str, mode: str, time: Any, energy: Any
) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": mode,
        "name": name,
        "x": [p.seconds * time.factor for p in points],
        "y": [p.joules * energy.factor for p in points],
        "line": {"color": color, "width": 2},
        "marker": {"color": color, "size": 9},
        "hovertext": [inert(f"{p.title}: {p.time}, {p.energy.text}") for p in points],
        "hoverinfo": "text",
    }
