"""Figure 7: the power of each part over three steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wattstep.reports.pages.paper.drawn import Drawn, NotDrawn
from wattstep.reports.pages.paper.parts import PARTS_MISSING, name_of_part, rank_of_part
from wattstep.reports.pages.paper.readings import Reading, Readings
from wattstep.reports.pages.paper.three_steps import (
    MOST_RUNS,
    SUMMARY,
    Chosen,
    chosen,
    panels,
    remarks,
    summary,
)
from wattstep.reports.tables import table
from wattstep.reports.values import plain
from wattstep.run.timeline import RAIL

TITLE = "Power over three steps"


def draw(readings: Readings) -> Drawn | NotDrawn:
    """A chart for each configuration, a panel for each part."""
    runs = chosen(readings, _channels)
    if not runs:
        return NotDrawn(
            reason=_reason(readings),
            command="wattstep run NAME --target emulate:jetson-tx2",
        )
    rows = [
        {"run": run.label, "part": channel["role"], "rail": channel["name"], **summary(channel)}
        for run in runs[:MOST_RUNS]
        for channel in run.channels
    ]
    texts = {"run": "Run", "part": "Part", "rail": "Channel"}
    return Drawn(
        panels=panels(runs),
        sentences=[*remarks(runs), *_without_parts(runs)],
        table=table(rows, texts, SUMMARY),
    )


def _channels(reading: Reading) -> list[Mapping[str, Any]]:
    found = reading.timeline.get("channels") or ()
    whole = [{**one, "role": "Whole"} for one in found if one.get("role") == "power"]
    rails = [(f"energy.{one.get('domain')}", one) for one in found if one.get("role") == RAIL]
    rails.sort(key=lambda rail: rank_of_part(rail[0]))
    return [*({**one, "role": name_of_part(part)} for part, one in rails), *whole]


def _without_parts(runs: list[Chosen]) -> list[str]:
    lacking = [
        run.label for run in runs[:MOST_RUNS] if all(c["role"] == "Whole" for c in run.channels)
    ]
    return [f"{plain('; '.join(lacking))}: {PARTS_MISSING}."] if lacking else []


def _reason(readings: Readings) -> str:
    figures = [run.observed.figure("mean_power", "W") for run in readings.runs]
    reasons = dict.fromkeys(plain(figure.reason) for figure in figures if figure.missing)
    if reasons and len(reasons) <= len(figures):
        return f"power was not sampled: {'; '.join(reasons)}"
    return "no run has three steps with sampled power"
