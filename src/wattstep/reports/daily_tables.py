"""A daily training as rows and as a chart: accuracy by day for each batch size, beside the paper's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from wattstep.records.figure import Figure
from wattstep.reports.pages.charts import Chart, series_color
from wattstep.reports.pages.learning import intervals_of
from wattstep.reports.values import Shown, plain, show

Document = Mapping[str, Any]

COLUMNS = (
    ("accuracy", "Accuracy"),
    ("gain", "Since day 0"),
    ("new_accuracy", "On the day's own"),
    ("forgetting", "Forgotten"),
    ("time", "Time"),
    ("energy", "Energy"),
)
_HEIGHT = 380


def heading(document: Document) -> str:
    """What was trained and how."""
    epochs = document["epochs_per_day"]
    return (
        f"{plain(document['title'])} · {document['images_per_day']} new samples a day for "
        f"{document['days']} days, {epochs} epoch{'' if epochs == 1 else 's'} a day"
    )


def facts(document: Document) -> list[str]:
    """What the reader must know of the data and of the model that came from the server."""
    server, data = document["pretrained"], document["data"] or {}
    lines = []
    if data:
        stands_for = data.get("stands_for")
        mark = (
            f" (a stand-in for {plain(stands_for)}: not the real data)" if data["stand_in"] else ""
        )
        lines.append(f"data: {plain(data['name'])}{mark}")
    if "steps" in server:
        lines.append(
            f"server: {server['samples']:,} samples that no day has, {server['steps']:,} steps with "
            f"batch {server['batch_size']} to {100 * server['accuracy']:.2f} %; all batch sizes "
            "begin with these weights and a fresh optimizer"
        )
    lines.append(
        "accuracy: on held-out samples; forgotten: accuracy on the server's samples on day 0 "
        "less that now"
    )
    return lines


def rows(batch: Mapping[str, Any]) -> Iterator[tuple[int, list[Shown | None]]]:
    """The days of a batch size: number and cells in the order of `COLUMNS`."""
    for day in batch["days"]:
        yield day["day"], [_shown(day.get(key)) for key, _ in COLUMNS]


def totals(batch: Mapping[str, Any]) -> list[Shown | None]:
    """The last row of a batch size: what all days took together."""
    found = {"time": batch["total_time"], "energy": batch["total_energy"]}
    return [_shown(found.get(key)) for key, _ in COLUMNS]


def reasons(batch: Mapping[str, Any]) -> list[str]:
    """Why a column lacks figures."""
    found: dict[str, None] = {}
    for day in batch["days"]:
        for key, label in COLUMNS:
            figure = day.get(key)
            if isinstance(figure, Figure) and figure.missing:
                found[f"{label} is missing: {plain(figure.reason)}"] = None
    return list(found)


def paper_note(document: Document) -> str:
    """What the paper found."""
    first, last = document["paper"]["accuracy"]
    return (
        f"The TX2 paper (Figure 10): DenseNet40 with {document['paper']['images_per_day']} images "
        f"a day, {100 * first['accuracy']:.2f} % to {100 * last['accuracy']:.2f} % in "
        f"{last['day']} days. It names neither the intervals nor how it chose the samples."
    )


def accuracy_chart(document: Document) -> Chart:
    """Accuracy by day, a line for each batch size with its interval, and the paper's two points."""
    traces = [
        _line(batch, series_color(number)) for number, batch in enumerate(document["batches"])
    ]
    points = document["paper"]["accuracy"]
    traces.append(
        {
            "type": "scatter",
            "mode": "lines+markers",
            "name": "published: DenseNet40, Jetson TX2, TensorFlow 1.13",
            "x": [point["day"] for point in points],
            "y": [point["accuracy"] for point in points],
            "line": {"color": "--ink-soft", "dash": "longdash", "width": 1.2},
            "marker": {"color": "--ink-soft", "size": 11, "symbol": "diamond-tall-open"},
        }
    )
    layout = {
        "height": _HEIGHT,
        "margin": {"l": 60, "r": 8, "t": 10, "b": 80},
        "xaxis": {"title": {"text": "day"}, "zeroline": False, "fixedrange": True},
        "yaxis": {"tickformat": ".1%", "zeroline": False, "fixedrange": True},
        "showlegend": True,
        "legend": {"orientation": "h", "y": -0.22},
    }
    return {"data": traces, "layout": layout, "tools": False}


def _line(batch: Mapping[str, Any], color: str) -> dict[str, Any]:
    found: Sequence[Figure] = [day["accuracy"] for day in batch["days"]]
    known = all(figure.low is not None for figure in found)
    return {
        **({"error_y": intervals_of([figure.to_dict() for figure in found])} if known else {}),
        "type": "scatter",
        "mode": "lines+markers",
        "name": f"batch {batch['batch_size']}",
        "x": [day["day"] for day in batch["days"]],
        "y": [figure.value for figure in found],
        "line": {"color": color, "width": 2},
        "marker": {"color": color, "size": 5},
        "hovertext": [show(figure.to_dict()).text for figure in found],
        "hovertemplate": "day %{x}: %{hovertext}",
    }


def _shown(figure: Figure | None) -> Shown | None:
    return None if figure is None else show(figure.to_dict())


def interval(figure: Figure) -> str:
    """A figure with its interval in words."""
    shown = show(figure.to_dict())
    percent = "" if figure.confidence is None else f", {figure.confidence:.0%} interval"
    return f"{shown.text}{percent}"
