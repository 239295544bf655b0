"""What a daily training's samples were labeled as: by day as a chart, by class as a table, and as pictures."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from typing import Any, Final

import numpy as np

from wattstep.report.html.charts import Chart
from wattstep.report.html.pictures import address
from wattstep.report.html.shares import stacked_shares
from wattstep.schema.daily_report import DailyLabels, LabelCounts, LabeledDays, LabelExample

# Kinds of `LabelCounts`, their colours and words.
KINDS: Final[Mapping[str, tuple[str, str]]] = {
    "right": ("--series-4", "labeled, right"),
    "wrong": ("--series-2", "labeled, wrong"),
    "unknown": ("--other", "unknown"),
    "withheld": ("--idle", "withheld"),
}
MOST_CLASSES = 16  # columns of the table; samples of others are counted together
_HEIGHT = 300
_SHOWN = 56  # pixels of the screen that a picture is about as high as


def labels_chart(labels: DailyLabels) -> Chart:
    """Shares of right and wrong labels, unknown and withheld samples, a bar for each stretch of days."""
    totals = [_sum(list(each.by_class.values())) for each in labels.days]
    traces = [
        {
            "type": "bar",
            "name": words,
            "x": [_days(each) for each in labels.days],
            "y": [getattr(counts, kind) / counts.samples for counts in totals],
            "customdata": [getattr(counts, kind) for counts in totals],
            "hovertemplate": "day %{x}: %{customdata} (%{y})",
            "marker": {"color": color},
        }
        for kind, (color, words) in KINDS.items()
    ]
    return stacked_shares(traces, "day", _HEIGHT)


def classes(labels: DailyLabels) -> dict[str, Any]:
    """Headings and rows of a table of counts: a row for each stretch of days, a column for each true class."""
    whole: dict[int, int] = {}
    for each in labels.days:
        for name, counts in each.by_class.items():
            whole[name] = whole.get(name, 0) + counts.samples
    shown = sorted(sorted(whole, key=lambda name: -whole[name])[:MOST_CLASSES])
    rows = []
    for each in labels.days:
        others = [counts for name, counts in each.by_class.items() if name not in shown]
        cells = [each.by_class.get(name, LabelCounts()) for name in shown]
        cells += [_sum(others)] if len(whole) > len(shown) else []
        rows.append((_days(each), [_cell(counts) for counts in cells]))
    names = [f"class {name}" for name in shown]
    names += ["others"] if len(whole) > len(shown) else []
    return {"names": names, "rows": rows, "kinds": list(KINDS.values())}


def pictures(labels: DailyLabels) -> list[tuple[int, list[list[dict[str, Any]]]]]:
    """Days with pictures of each kind, in the order of `KINDS`."""
    return [
        (day, [[_picture(each) for each in examples if each.kind == kind] for kind in KINDS])
        for day, examples in (
            (day, list(of_day)) for day, of_day in groupby(labels.examples, lambda each: each.day)
        )
    ]


def _picture(example: LabelExample) -> dict[str, Any]:
    height, width, _ = example.shape
    scale = max(1, round(_SHOWN / height))
    sure = "" if example.kind in ("right", "wrong") else "?"
    pixels = np.frombuffer(example.pixels, dtype=np.uint8).reshape(example.shape)
    return {
        "address": address(pixels),
        "width": scale * width,
        "height": scale * height,
        "label": f"{example.label}{sure}",
        "probability": f"{100 * example.probability:.0f} %",
        "truth": "" if example.kind == "right" else f"is {example.truth}",
    }


def _cell(counts: LabelCounts) -> dict[str, Any]:
    numbers = [getattr(counts, kind) for kind in KINDS]
    return {
        "text": " · ".join(map(str, numbers)) if counts.samples else "",
        "parts": [
            (number, color) for number, (color, _) in zip(numbers, KINDS.values(), strict=True) if number
        ],
    }  # fmt: skip


def _sum(counts: list[LabelCounts]) -> LabelCounts:
    return LabelCounts(**{kind: sum(getattr(each, kind) for each in counts) for kind in KINDS})


def _days(each: LabeledDays) -> str:
    return str(each.first) if each.first == each.last else f"{each.first} to {each.last}"
