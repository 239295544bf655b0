"""A daily training as rows: accuracy by day for each batch size, beside the paper's."""

from __future__ import annotations

from collections.abc import Iterator

from wattstep.report.values import Shown, plain, show
from wattstep.schema.daily_report import DailyBatch, DailyLabels, DailyReport
from wattstep.schema.figure import Figure

COLUMNS = (
    ("accuracy", "Accuracy"),
    ("gain", "Since day 0"),
    ("new_accuracy", "On the day's own"),
    ("forgetting", "Forgotten"),
    ("time", "Time"),
    ("energy", "Energy"),
)
LABELED = (("labeled", "Labeled"), ("labels_right", "Labels right"))


def columns(daily: DailyReport) -> tuple[tuple[str, str], ...]:
    """Keys and headings of the columns: two more where samples were labeled here."""
    return COLUMNS if daily.labels is None else (*LABELED, *COLUMNS)


def heading(daily: DailyReport) -> str:
    """Title, images a day, days and epochs, in one line."""
    epochs = daily.epochs_per_day
    return (
        f"{plain(daily.title)} · {daily.images_per_day} new samples a day for "
        f"{daily.days} days, {epochs} epoch{'' if epochs == 1 else 's'} a day"
    )


def facts(daily: DailyReport) -> list[str]:
    """Provenance of the data and of the pretrained model, in sentences."""
    server, data = daily.pretrained, daily.data or {}
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
    if daily.labels is not None:
        lines.append(_labels(daily.labels))
    lines.append(
        "accuracy: on held-out samples; forgotten: accuracy on the server's samples on day 0 "
        "less that now"
    )
    return lines


def _labels(labels: DailyLabels) -> str:
    whole = labels.labeled + labels.unknown + labels.withheld
    return (
        f"labels: not given, but told from {labels.begun_with:,} labeled samples that neither server nor days have: "
        f"{labels.labeled:,} of {whole:,} new samples labeled and trained on, {labels.unknown:,} unknown, "
        f"{labels.withheld:,} withheld; of the labels {show(labels.right).text} are the true ones "
        f"(the first choice of the server's model, of all samples: {show(labels.first_choice).text}); labeling took "
        f"{show(labels.time).text} with the making of its rules, and {_energy(labels.energy)}; both are in no day's "
        "time and energy"
    )


def _energy(figure: Figure) -> str:
    if figure.missing:
        return f"an energy that is not known ({plain(figure.reason)})"
    shown = show(figure)
    return f"{shown.text} ({shown.status})"


def rows(
    batch: DailyBatch, of: tuple[tuple[str, str], ...] = COLUMNS
) -> Iterator[tuple[int, list[Shown | None]]]:
    """The days of a batch size: number and cells in the order of the columns."""
    for day in batch.days:
        yield day.day, [_shown(day.figures.get(key)) for key, _ in of]


def totals(batch: DailyBatch, of: tuple[tuple[str, str], ...] = COLUMNS) -> list[Shown | None]:
    """The last row of a batch size: what all days took together."""
    figures = {"time": batch.total_time, "energy": batch.total_energy}
    return [_shown(figures.get(key)) for key, _ in of]


def reasons(daily: DailyReport) -> list[str]:
    """Reasons why figures of a column are missing, each once."""
    distinct: dict[str, None] = {}
    for day in (day for batch in daily.batches for day in batch.days):
        for key, label in columns(daily):
            figure = day.figures.get(key)
            if figure is not None and figure.missing:
                distinct[f"{label} is missing: {plain(figure.reason)}"] = None
    return list(distinct)


def paper_note(daily: DailyReport) -> str:
    """Result of the paper's Figure 10, in a sentence."""
    (_, first), (days, last) = daily.paper.accuracy
    return (
        f"The TX2 paper (Figure 10): DenseNet40 with {daily.paper.images_per_day} images "
        f"a day, {100 * first:.2f} % to {100 * last:.2f} % in "
        f"{days} days. It names neither the intervals nor how it chose the samples."
    )


def _shown(figure: Figure | None) -> Shown | None:
    return None if figure is None else show(figure)


def interval(figure: Figure) -> str:
    """A figure with its interval in words."""
    shown = show(figure)
    percent = "" if figure.confidence is None else f", {100 * figure.confidence:.0f} % interval"
    return f"{shown.text}{percent}"
