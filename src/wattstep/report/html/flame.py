"""A training step as a flame chart: phases, below them modules, below them operations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from wattstep.report.html.charts import Chart, color_of, phases_of
from wattstep.report.html.plotly_text import inert
from wattstep.report.values import plain, quantity, scale_of
from wattstep.schema.report_rows import CostRow
from wattstep.schema.spelling import Scale

_LEAST = 0.001  # of the whole; what is narrower cannot be pointed at
_ROW = 26  # pixels


@dataclass
class _Node:
    """Phase, module or operation with the time of all below it, in s."""

    name: str
    phase: str
    seconds: float = 0.0
    below: dict[str, _Node] = field(default_factory=dict)

    def add(self, path: Sequence[str], seconds: float) -> None:
        """Adds an operation at the end of a path of names."""
        self.seconds += seconds
        if path:
            child = self.below.setdefault(path[0], _Node(name=path[0], phase=self.phase))
            child.add(path[1:], seconds)


def flame_chart(operations: Sequence[CostRow], of: str) -> Chart | None:
    """Time of operations by phase and module; None where there are fewer than two with a time.

    Args:
        operations: Rows of a report; those whose time is missing have no place.
        of: Basis of the times, in words: "for one step".
    """
    roots: dict[str, _Node] = {}
    timed = [(row, figure.value) for row in operations if (figure := row.time) and figure.value]
    if len(timed) < 2:
        return None
    for row, seconds in timed:
        root = roots.setdefault(row.phase, _Node(name=row.phase or "no phase", phase=row.phase))
        modules = row.layer.split(".") if row.layer and not row.layer.startswith("(") else []
        root.add([*modules, row.name], seconds)
    whole = sum(root.seconds for root in roots.values())
    begin = 0.0
    drawn: list[tuple[_Node, float, int]] = []
    for phase in [*phases_of(roots), *(name for name in roots if not name)]:
        drawn.extend(_placed(roots[phase], begin, 0, _LEAST * whole))
        begin += roots[phase].seconds
    depths = 1 + max(depth for _, _, depth in drawn)
    scale = scale_of(whole, "s")
    traces = [
        _level([(node, at) for node, at, level in drawn if level == depth], depth, whole, scale, of)
        for depth in range(depths)
    ]
    axis = {"range": [0, whole * scale.factor], "ticksuffix": scale.suffix, "nticks": 6}
    layout = {
        "height": _ROW * depths + 34,
        "barmode": "overlay",
        "bargap": 0.08,
        "margin": {"l": 0, "r": 1, "t": 4, "b": 26},
        "xaxis": {**axis, "zeroline": False},
        "yaxis": {"visible": False, "fixedrange": True, "range": [depths - 0.5, -0.5]},
        "uniformtext": {"mode": "hide", "minsize": 10},
        "showlegend": False,
    }
    return {"data": traces, "layout": layout, "tools": True}


def _placed(
    node: _Node, begin: float, depth: int, least: float
) -> Iterator[tuple[_Node, float, int]]:
    """A node and those below it with where they begin in s, the longest first."""
    yield node, begin, depth
    for child in sorted(node.below.values(), key=lambda each: -each.seconds):
        if child.seconds >= least:
            yield from _placed(child, begin, depth + 1, least)
        begin += child.seconds


def _level(
    nodes: Sequence[tuple[_Node, float]], depth: int, whole: float, scale: Scale, of: str
) -> dict[str, Any]:
    hovers = [
        f"{inert(plain(node.name))} · {inert(plain(node.phase))}<br>"
        f"{quantity(node.seconds, 's')} {of}, {100 * node.seconds / whole:.1f} % of what operations take"
        for node, _ in nodes
    ]
    return {
        "type": "bar",
        "orientation": "h",
        "y": [depth] * len(nodes),
        "base": [at * scale.factor for _, at in nodes],
        "x": [node.seconds * scale.factor for node, _ in nodes],
        "marker": {
            "color": [color_of(node.phase) for node, _ in nodes],
            "line": {"color": "--surface", "width": 1},
            "opacity": 1 - 0.12 * min(depth, 4),
        },
        "text": [inert(plain(node.name)) for node, _ in nodes],
        "textposition": "inside",
        "insidetextanchor": "start",
        "textangle": 0,
        "constraintext": "inside",  # what would shrink below what one can read is hidden
        "insidetextfont": {"color": "--on-bar"},
        "hovertext": hovers,
        "hoverinfo": "text",
    }
