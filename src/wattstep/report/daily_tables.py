"""A daily training as rows: accuracy by day for each batch size, beside the paper's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from wattstep.report.values import Shown, plain, show
from wattstep.schema.figure import Figure

Document = Mapping[str, Any]

COLUMNS = (
    ("accuracy", "Accuracy"),
    ("gain", "Since day 0"),
    ("new_accuracy", "On the day's own"),
    ("forgetting", "Forgotten"),
    ("time", "Time"),
    ("energy", "Energy"),
)


def heading(document: Document) -> str:
    """Title, images a day, days and epochs, in one line."""
    epochs = document["epochs_per_day"]
    return (
        f"{plain(document['title'])} · {document['images_per_day']} new samples a day for "
        f"{document['days']} days, {epochs} epoch{'' if epochs == 1 else 's'} a day"
    )


def facts(document: Document) -> list[str]:
    """Provenance of the data and of the pretrained model, in sentences."""
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
    figures = {"time": batch["total_time"], "energy": batch["total_energy"]}
    return [_shown(figures.get(key)) for key, _ in COLUMNS]


def reasons(batch: Mapping[str, Any]) -> list[str]:
    """Reasons why figures of a column are missing, each once."""
    distinct: dict[str, None] = {}
    for day in batch["days"]:
        for key, label in COLUMNS:
            figure = day.get(key)
            if isinstance(figure, Figure) and figure.missing:
                distinct[f"{label} is missing: {plain(figure.reason)}"] = None
    return list(distinct)


def paper_note(document: Document) -> str:
    """Result of the paper's Figure 10, in a sentence."""
    first, last = document["paper"]["accuracy"]
    return (
        f"The TX2 paper (Figure 10): DenseNet40 with {document['paper']['images_per_day']} images "
        f"a day, {100 * first['accuracy']:.2f} % to {100 * last['accuracy']:.2f} % in "
        f"{last['day']} days. It names neither the intervals nor how it chose the samples."
    )


def _shown(figure: Figure | None) -> Shown | None:
    return None if figure is None else show(figure)


def interval(figure: Figure) -> str:
    """A figure with its interval in words."""
    shown = show(figure)
    percent = "" if figure.confidence is None else f", {figure.confidence:.0%} interval"
    return f"{shown.text}{percent}"
