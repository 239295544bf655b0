"""Result of a daily training: what each day brought and cost, as figures."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

from wattstep import workloads
from wattstep.errors import DamagedRunError
from wattstep.run import Run, load
from wattstep.schema.daily_report import (
    DailyBatch,
    DailyLabels,
    DailyReport,
    Day,
    PretrainedFacts,
    Published,
)
from wattstep.schema.figure import CLOCK, Figure, Missing, Status, missing, weakest
from wattstep.stats.statistics import change_figure, share_figure
from wattstep.train.daily.folder import DailyFolder, DayLabels, DayRow

# Figure 10 and the text beside it (Liu et al., arXiv 1906.04278): the start, and after 17 days;
# the batch sizes are not named.
NOTHING = "no sample of the day got a label: nothing was trained"
PAPER = Published(workload="densenet40", images_per_day=64, accuracy=((0, 0.6065), (17, 0.6132)))


def daily_report(folder: DailyFolder, sizes: Sequence[int] | None = None) -> DailyReport:
    """Result of a daily training.

    Args:
        sizes: Batch sizes; None: all that have begun.
    """
    settings = folder.settings()
    facts = workloads.find(settings.workload).facts
    server: PretrainedFacts = folder.server() or {}
    labels = folder.labels() if settings.labels == "auto" else None
    chosen = [size for size in folder.batches() if sizes is None or size in sizes]
    return DailyReport(
        folder=str(folder.path),
        workload=facts.name,
        title=facts.title,
        images_per_day=settings.images_per_day,
        days=settings.days,
        epochs_per_day=settings.epochs_per_day,
        precision=settings.precision,
        rate_rule=settings.rate_rule,
        seed=settings.seed,
        data=server.get("data"),
        pretrained={"goal": settings.pretrain, **server},
        batches=tuple(_batch(folder, size, settings.days, labels) for size in chosen),
        labels=None if labels is None else _labels(labels, settings.labeled),
        paper=PAPER,
    )


def _labels(days: Sequence[DayLabels], begun_with: int) -> DailyLabels:
    statuses = "".join(day["statuses"] for day in days)
    right = "".join(day["right"] for day in days)
    return DailyLabels(
        begun_with=begun_with,
        labeled=statuses.count("l"),
        unknown=statuses.count("u"),
        withheld=statuses.count("a"),
        right=_right(right),
        first_choice=share("".join(day["first_choice"] for day in days), "new samples"),
        time=Figure(
            value=sum(day["seconds"] for day in days), unit="s", n=len(days),
            status=Status.MEASURED, source=CLOCK, method="sum over the days, features among it",
        ),
    )  # fmt: skip


def _right(bits: str) -> Figure:
    return share(bits, "labels, held against the true ones") if bits else missing("ratio", NOTHING)


def _batch(
    folder: DailyFolder, size: int, days: int, labels: Sequence[DayLabels] | None
) -> DailyBatch:
    rows = folder.days(size)

    @cache
    def opened(name: str) -> Run:
        return load(folder.batch(size) / name)

    described = tuple(_labeled(_day(row, rows[0], opened), labels) for row in rows)
    return DailyBatch(
        batch_size=size,
        complete=rows[-1]["day"] == days,
        steps_per_day=folder.settings().steps_per_day(size),
        weights_sha256=rows[0]["weights_sha256"],
        runs=tuple(sorted({str(folder.batch(size) / row["run"]) for row in rows[1:]})),
        days=described,
        total_time=_sum([day.time for day in described if day.time is not None], "s"),
        total_energy=_sum([day.energy for day in described if day.energy is not None], "J"),
    )


def _labeled(day: Day, labels: Sequence[DayLabels] | None) -> Day:
    """The day with what was labeled of it."""
    if labels is None or not day.day:
        return day
    own = labels[day.day - 1]
    bits = own["statuses"].replace("l", "1").replace("u", "0").replace("a", "0")
    return replace(
        day, labeled=share(bits, "the day's samples"), labels_right=_right(own["right"])
    )  # fmt: skip


def _day(row: DayRow, first: DayRow, opened: Callable[[str], Run]) -> Day:
    begun = Day(
        day=row["day"],
        accuracy=share(row["held_out"], "held-out samples"),
        gain=paired(row["held_out"], first["held_out"], "held-out samples"),
        forgetting=paired(first["remembered"], row["remembered"], "samples of the server"),
    )
    if not row["day"]:
        return begun
    if not row["steps"]:
        return replace(
            begun,
            new_accuracy=share(row["new"] or "", "the day's samples"),
            steps=0,
            samples=0,
            time=missing("s", NOTHING),
            energy=missing("J", NOTHING),
        )
    return replace(
        begun,
        new_accuracy=share(row["new"] or "", "the day's samples, after training on them"),
        loss=row["loss"],
        steps=row["steps"],
        samples=row["samples"],
        time=Figure(
            value=(row["end_ns"] - row["begin_ns"]) * 1e-9, unit="s", n=row["steps"],
            status=Status.MEASURED, source=CLOCK, method="from the day's first step to its last",
        ),
        energy=_energy(row, opened),
    )  # fmt: skip


def _energy(row: DayRow, opened: Callable[[str], Run]) -> Figure:
    """Of the span that `time` is measured over."""
    try:
        energy = opened(row["run"]).series.energy
    except DamagedRunError as error:
        return missing("J", f"its run cannot be read: {error}")
    if isinstance(energy, Missing):
        return missing("J", energy)
    import numpy as np

    span = np.array([row["begin_ns"]]), np.array([row["end_ns"]])
    gains, covered = energy.curve.difference(*span)
    if not covered[0] > 0 or not math.isfinite(gains[0]):
        return missing("J", f"no samples of {energy.source} while the day was trained")
    return Figure(
        value=float(gains[0] / covered[0]), unit="J", status=energy.status, source=energy.source,
        method="between the day's first step and its last", reason=energy.note,
    )  # fmt: skip


def share(bits: str, of: str) -> Figure:
    """The share of ones."""
    return share_figure(bits.count("1"), len(bits), of)


def paired(bits: str, before: str, of: str) -> Figure:
    """The share of ones less that of `before`, on the same samples."""
    won = sum(a > b for a, b in zip(bits, before, strict=True))
    lost = sum(a < b for a, b in zip(bits, before, strict=True))
    return change_figure(won, lost, len(bits), of)


def _sum(figures: Sequence[Figure], unit: str) -> Figure:
    values = [figure.value for figure in figures if figure.value is not None]
    if not figures or len(values) < len(figures):
        gaps = [figure.reason for figure in figures if figure.value is None]
        return missing(unit, gaps[0] or "not known" if gaps else "no day is done")
    return Figure(
        value=sum(values), unit=unit, n=len(values), source=figures[0].source,
        status=weakest(figure.status for figure in figures), method="sum over the days",
    )  # fmt: skip
