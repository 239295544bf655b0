"""What a labeler made of the samples of all days, as figures, counts and pictures of bounded number."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Sequence
from functools import cache

from wattstep.run import Run, load
from wattstep.schema.daily_report import DailyLabels, LabelCounts, LabeledDays, LabelExample
from wattstep.schema.figure import CLOCK, Figure, Status
from wattstep.train.daily.figures import energy_of, right_share, share, total
from wattstep.train.daily.folder import DailyFolder, DayLabels, kinds_of

MOST_STRETCHES = 20  # of days that are counted together


def daily_labels(folder: DailyFolder, days: Sequence[DayLabels], begun_with: int) -> DailyLabels:
    """Of all days.

    Args:
        begun_with: Labeled samples.
    """

    @cache
    def opened(name: str) -> Run:
        return load(folder.labeling / name)

    statuses = "".join(day["statuses"] for day in days)
    method = "of labeling, with its features and with making its rules"
    return DailyLabels(
        begun_with=begun_with,
        labeled=statuses.count("l"),
        unknown=statuses.count("u"),
        withheld=statuses.count("a"),
        right=right_share("".join(day["right"] for day in days)),
        first_choice=share("".join(day["first_choice"] for day in days), "new samples"),
        time=Figure(
            value=sum(day["end_ns"] - day["begin_ns"] for day in days) * 1e-9, unit="s", n=len(days),
            status=Status.MEASURED, source=CLOCK, method=f"sum over the days, {method}",
        ),
        energy=total([energy_of(day, opened, method) for day in days], "J"),
        days=_stretches(days),
        examples=tuple(_examples(days)),
    )  # fmt: skip


def _stretches(days: Sequence[DayLabels]) -> tuple[LabeledDays, ...]:
    length = -(-len(days) // MOST_STRETCHES)
    return tuple(
        LabeledDays(
            first=at + 1,
            last=min(at + length, len(days)),
            by_class=_by_class(days[at : at + length]),
        )
        for at in range(0, len(days), length)
    )


def _by_class(days: Sequence[DayLabels]) -> dict[int, LabelCounts]:
    counts = Counter(pair for day in days for pair in zip(day["truth"], kinds_of(day), strict=True))
    kinds: dict[int, dict[str, int]] = {}
    for (truth, kind), count in sorted(counts.items()):
        kinds.setdefault(truth, {})[kind] = count
    return {truth: LabelCounts(**each) for truth, each in kinds.items()}


def _examples(days: Sequence[DayLabels]) -> list[LabelExample]:
    return [
        LabelExample(
            day=number,
            kind=each["kind"],
            label=each["label"],
            truth=each["truth"],
            probability=each["probability"],
            pixels=base64.b64decode(each["pixels"]),
            shape=(each["shape"][0], each["shape"][1], each["shape"][2]),
        )
        for number, day in enumerate(days, start=1)
        for each in day["examples"]
    ]
