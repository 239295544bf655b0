"""Result of a daily training: what each day brought and cost, as figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

from wattstep import workloads
from wattstep.run import Run, load
from wattstep.schema.daily_report import (
    DailyBatch,
    DailyReport,
    Day,
    PretrainedFacts,
    Published,
)
from wattstep.schema.figure import CLOCK, Figure, Status, missing
from wattstep.train.daily.figures import (
    NOTHING,
    energy_of,
    paired,
    right_share,
    share,
    total,
)
from wattstep.train.daily.folder import DailyFolder, DayLabels, DayRow
from wattstep.train.daily.labeled import daily_labels

# Figure 10 and the text beside it (Liu et al., arXiv 1906.04278): the start, and after 17 days;
# the batch sizes are not named.
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
        labels=None if labels is None else daily_labels(folder, labels, settings.labeled),
        paper=PAPER,
    )


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
        total_time=total([day.time for day in described if day.time is not None], "s"),
        total_energy=total([day.energy for day in described if day.energy is not None], "J"),
    )


def _labeled(day: Day, labels: Sequence[DayLabels] | None) -> Day:
    """The day with what was labeled of it."""
    if labels is None or not day.day:
        return day
    own = labels[day.day - 1]
    bits = own["statuses"].replace("l", "1").replace("u", "0").replace("a", "0")
    return replace(
        day, labeled=share(bits, "the day's samples"), labels_right=right_share(own["right"])
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
        energy=energy_of(row, opened, "between the day's first step and its last"),
    )  # fmt: skip
