"""Figure 3: the utilization of each core and of the GPU over three steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wattstep.reports.pages.paper.drawn import Drawn, NotDrawn
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

TITLE = "Utilization of each core and the GPU over three steps"
_MOST_PANELS = 12  # cores with a panel of their own; more share one


def draw(readings: Readings) -> Drawn | NotDrawn:
    """A chart for each configuration, a panel for each core."""
    runs = chosen(readings, _channels)
    if not runs:
        return NotDrawn(
            reason="no run has three steps with a sampled load of its cores or of a GPU",
            command="wattstep run NAME --seconds 10",
        )
    rows = [row for run in runs[:MOST_RUNS] for row in _rows(run)]
    texts = {"run": "Run", "part": "Processor"}
    return Drawn(
        panels=panels(runs),
        sentences=[*remarks(runs), *_without_cores(runs), *_without_gpu(runs)],
        table=table(rows, texts, {**SUMMARY, "whole": "Over all counted steps"}),
    )


def _channels(reading: Reading) -> list[Mapping[str, Any]]:
    found = reading.timeline.get("channels") or ()
    cores = [channel for channel in found if channel.get("core") is not None]
    gpus = [channel for channel in found if channel.get("role") == "gpu_utilization"]
    if len(cores) <= _MOST_PANELS:
        cores = [{**core, "role": _core(reading, core["core"]), "core": None} for core in cores]
    return [*cores, *gpus]


def _core(reading: Reading, number: int) -> str:
    kind = reading.kinds.get(int(number))
    return f"core {number} ({plain(kind)})" if kind else f"core {number}"


def _rows(run: Chosen) -> list[dict[str, Any]]:
    rows = []
    for channel in run.reading.timeline.get("channels") or ():
        core = channel.get("core")
        if core is None and channel.get("role") != "gpu_utilization":
            continue
        metric = "gpu_utilization" if core is None else f"cpu_core_utilization.{core}"
        whole = run.reading.figures.get(metric)
        part = plain(channel["name"]) if core is None else _core(run.reading, core)
        known = {} if whole is None else {"whole": whole}
        rows.append({"run": run.label, "part": part, **summary(channel), **known})
    return rows


def _without_cores(runs: list[Chosen]) -> list[str]:
    """Cores whose load was sampled, but not within these steps."""
    lacking = [
        plain(run.label)
        for run in runs[:MOST_RUNS]
        if "cpu_core_utilization.0" in run.reading.observed.metrics
        and all(channel.get("role") == "gpu_utilization" for channel in run.channels)
    ]
    where = "; ".join(lacking)
    return [f"{where}: the load of cores has no sample within these steps."] if lacking else []


def _without_gpu(runs: list[Chosen]) -> list[str]:
    reasons: dict[str, None] = {}
    for run in runs[:MOST_RUNS]:
        figure = run.reading.observed.figure("gpu_utilization", "ratio")
        if figure.missing:
            reasons[f"GPU utilization is missing: {plain(figure.reason)}."] = None
    return list(reasons)
