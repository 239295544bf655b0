"""Figure 5: the share of time in which each core is idle, by batch size."""

from __future__ import annotations

from typing import Any

from wattstep.observations.groups import Group
from wattstep.reports.pages.charts import series_color
from wattstep.reports.pages.paper.by_batch import bar_of, grouped_bars
from wattstep.reports.pages.paper.drawn import Drawn, KeyEntry, NotDrawn, Panel
from wattstep.reports.pages.paper.published import label, published
from wattstep.reports.pages.paper.readings import Readings, names_of, pooled, shown
from wattstep.reports.tables import table
from wattstep.reports.values import plain

TITLE = "Idle state ratio of each core"
_PREFIX = "idle_state_ratio"
_LEVEL = KeyEntry(
    mark="╌", color="--ink", label=f"{label()}: a Denver2 core, up to {published(5)[0].text}"
)
_LACKING = "the load of single cores was not sampled"


def draw(readings: Readings) -> Drawn | NotDrawn:
    """A chart for each group of runs, bars of each batch size side by side at each core."""
    panels: list[Panel] = []
    rows: list[dict[str, Any]] = []
    key: dict[str, KeyEntry] = {}
    for group in readings.groups:
        found = _rows(readings, group)
        panel = _panel(group, found)
        if panel is not None:
            panels.append(panel)
            rows += found
            key |= {entry.label: entry for entry in _key(group)}
    if not panels:
        return NotDrawn(reason=_reason(readings), command="wattstep run NAME --seconds 10")
    texts = {"run": "Runs", "batch": "Batch", "core": "Core", "kind": "Kind"}
    return Drawn(
        panels=panels,
        sentences=[
            "A core is idle in a window of samples in which it does next to nothing.",
            *(words for group in readings.groups if (words := _kinds(readings, group))),
        ],
        table=table(rows, texts, {"idle": "Idle state ratio"}),
        key=(*key.values(), _LEVEL),
    )


def _rows(readings: Readings, group: Group) -> list[dict[str, Any]]:
    kinds = readings.of(group.runs[0]).kinds
    return [
        {
            "run": group.label,
            "batch": f"{batch:,}" if batch else "",
            "core": name.rpartition(".")[2],
            "kind": kinds.get(int(name.rpartition(".")[2]), ""),
            "figure": pooled(group, name, batch, "ratio"),
            "idle": shown(readings, group, name, batch, "ratio"),
        }
        for batch in group.batches
        for name in names_of(group, _PREFIX)
    ]


def _panel(group: Group, rows: list[dict[str, Any]]) -> Panel | None:
    cores = list(dict.fromkeys(row["core"] for row in rows))
    series = []
    for number, batch in enumerate(dict.fromkeys(row["batch"] for row in rows)):
        own = {row["core"]: row for row in rows if row["batch"] == batch}
        series.append(
            [
                bar_of(" ".join(["core", core, own[core]["kind"]]).strip(),
                       f"batch {batch}" if batch else "", own[core]["figure"], series_color(number))
                if core in own else None
                for core in cores
            ]
        )  # fmt: skip
    chart = grouped_bars(cores, series, "ratio", published(5)[0].value)
    if chart is None:
        return None
    statuses = dict.fromkeys(bar.shown.status for bars in series for bar in bars if bar is not None)
    return Panel(title=group.label, chart=chart, statuses=tuple(statuses))


def _kinds(readings: Readings, group: Group) -> str:
    """Which cores are of which kind, in a sentence, or "" where there is one kind."""
    by_kind: dict[str, list[str]] = {}
    for core, kind in sorted(readings.of(group.runs[0]).kinds.items()):
        by_kind.setdefault(kind, []).append(str(core))
    words = "; ".join(f"{plain(kind)}: {', '.join(cores)}" for kind, cores in by_kind.items())
    return f"{plain(group.label)}, cores by kind: {words}." if words else ""


def _key(group: Group) -> list[KeyEntry]:
    return [
        KeyEntry(mark="■", color=series_color(number), label=f"batch {batch:,}")
        for number, batch in enumerate(group.batches)
        if batch
    ]


def _reason(readings: Readings) -> str:
    absent = (run.document.get("missing") or () for run in readings.runs)
    known = dict.fromkeys(
        plain(entry["reason"])
        for entries in absent
        for entry in entries
        if entry.get("what") in (_PREFIX, "core_load")
    )
    return "; ".join(known) or _LACKING
