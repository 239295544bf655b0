"""One HTML file for one or several runs, which opens offline and asks nothing of any network."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from wattstep.reports import charts, wording
from wattstep.reports.charts import Bar, Chart
from wattstep.reports.tables import Table, costs, seconds, table
from wattstep.reports.values import (
    BYTES_NOTE,
    NO_VALUE,
    Shown,
    is_figure,
    plain,
    quantity,
    show,
)
from wattstep.reports.wording import Document

Timeline = Mapping[str, Any]

_TOP_OPERATIONS = 12
_MOST_LAYER_BARS = 40
_COMPARED = ("step_time", "throughput", "energy_per_step", "energy_per_sample", "peak_memory")
_RANKED = ("step_time", "energy_per_step", "peak_memory")
# Shown in parts of their own.
_APART = ("cpu_core_utilization", "idle_state_ratio", "memory_breakdown")


@dataclass(frozen=True, kw_only=True)
class _Plot:
    """The place of a chart in the page; the chart itself is in the block of data.

    Attributes:
        id: The id of the element.
        height: Its height in pixels.
        title: What the chart shows.
        statuses: The statuses of the figures in it.
    """

    id: str
    height: int
    title: str
    statuses: tuple[str, ...]


class _Plots:
    """The charts of a page, in the order in which they were placed."""

    def __init__(self) -> None:
        self.placed: dict[str, Chart] = {}

    def place(self, chart: Chart | None, title: str, bars: Sequence[Bar] = ()) -> _Plot | None:
        """Keeps a chart for the block of data; None where there is nothing to draw."""
        if chart is None:
            return None
        name = f"chart-{len(self.placed) + 1}"
        self.placed[name] = chart
        statuses = tuple(dict.fromkeys(bar.shown.status for bar in bars))
        height = int(chart["layout"]["height"])
        return _Plot(id=name, height=height, title=title, statuses=statuses)


def write_report(runs: list[tuple[dict[str, Any], dict[str, Any]]], path: Path) -> None:
    """Writes the report of some runs as one HTML file, in one piece or not at all.

    Args:
        runs: A run document and its timeline (`{}` if there is none), for each run.
        path: The file; its folder is made if need be, and an older file is replaced.
    """
    _write_at_once(render_report(runs), path)


def render_report(runs: Sequence[tuple[Document, Timeline]]) -> str:
    """The report of some runs as the text of an HTML page."""
    environment = Environment(
        loader=PackageLoader("wattstep.reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    plots = _Plots()
    overview = _overview([document for document, _ in runs], plots) if len(runs) > 1 else None
    sections = [
        _run(f"run-{number}", document, timeline, plots)
        for number, (document, timeline) in enumerate(runs, start=1)
    ]
    scripts = [_script(get_plotlyjs()), _script(_own("report.js"))]
    return environment.get_template("report.html").render(
        title=_page_title([document for document, _ in runs]),
        runs=sections,
        overview=overview,
        meanings=wording.STATUS_MEANINGS,
        bytes_note=BYTES_NOTE,
        style=Markup(_own("report.css")),
        scripts=scripts,
        policy=_policy(scripts),
        charts=Markup(embedded(plots.placed)),
    )


def embedded(thing: object) -> str:
    """JSON that stays data inside a script element, whatever the text in it."""
    text = json.dumps(thing, allow_nan=False, separators=(",", ":"))  # ASCII: U+2028 is escaped
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _own(name: str) -> str:
    return (files("wattstep.reports") / "templates" / name).read_text(encoding="utf-8")


def _script(source: str) -> Markup:
    # A browser reads CR LF as LF before it computes the hash that the policy is about.
    return Markup(source.replace("\r\n", "\n").replace("\r", "\n"))


def _policy(scripts: Iterable[str]) -> str:
    """A content security policy: these scripts and no other, and no request to anywhere."""
    hashes = [base64.b64encode(hashlib.sha256(s.encode()).digest()).decode() for s in scripts]
    allowed = " ".join(f"'sha256-{each}'" for each in hashes)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


def _write_at_once(text: str, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        # Names may hold halves of surrogate pairs, which UTF-8 cannot.
        with temporary.open("w", encoding="utf-8", errors="replace", newline="\n") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _page_title(documents: Sequence[Document]) -> str:
    return wording.title(documents[0]) if len(documents) == 1 else f"{len(documents)} runs"


def _overview(documents: Sequence[Document], plots: _Plots) -> dict[str, Any]:
    rows = [
        {
            "run": wording.title(document),
            "engine": document.get("engine"),
            "machine": ", ".join(wording.machine(document)[:2]),
            **(document.get("metrics") or {}),
        }
        for document in documents
    ]
    labels = {name: wording.metric(name).label for name in _COMPARED}
    differing = {
        key: wording.label(key)
        for key in ("engine", "machine")
        if len({row[key] for row in rows}) > 1
    }
    return {
        "table": table(rows, {"run": "Run", **differing}, labels),
        "plots": _rankings(rows, "run", {name: labels[name] for name in _RANKED}, plots),
    }


def _run(id: str, document: Document, timeline: Timeline, plots: _Plots) -> dict[str, Any]:
    metrics = document.get("metrics") or {}
    return {
        "id": id,
        "title": wording.title(document),
        "setting": wording.setting(document),
        "virtual": wording.virtuality(document),
        "stand_in": bool((document.get("data") or {}).get("stand_in")),
        "state": plain(document.get("state") or ""),
        "cautions": wording.cautions(document),
        "summary": wording.summary(document),
        **_headlines(metrics),
        "step": _parts_of_a_step(document, plots),
        "timeline": _timeline(timeline, plots),
        "operations": _operations(document, plots),
        "layers": _layers(document, plots),
        "cores": _cores(metrics),
        "memory": _memory(metrics, plots),
        "rails": _rails(document, plots),
        "missing": [
            (plain(entry["what"]), plain(entry["reason"]))
            for entry in document.get("missing") or ()
        ],
        "recording": [_fact(*item) for item in (document.get("recording") or {}).items()],
        "facts": _facts(document),
        "channels": [_channel(channel) for channel in document.get("channels") or ()],
    }


def _headlines(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """The figures on cards; those missing for one reason share a card; the others in a list."""
    single = {
        name: show(thing, wording.metric(name).notation)
        for name, thing in metrics.items()
        if is_figure(thing)
    }
    cards = [(wording.metric(n), single[n]) for n in wording.HEADLINES if n in single]
    unknown: dict[str, list[str]] = {}
    for known, shown in cards:
        if shown.missing:
            unknown.setdefault(shown.reason, []).append(known.label)
    others = [(wording.metric(n), s) for n, s in single.items() if n not in wording.HEADLINES]
    return {
        "cards": [(known, shown) for known, shown in cards if not shown.missing],
        "unknown": [(", ".join(labels), reason) for reason, labels in unknown.items()],
        "others": others + list(_nested(metrics)),
    }


def _nested(metrics: Mapping[str, Any]) -> Iterable[tuple[wording.Metric, Shown]]:
    """Lists and mappings of figures that have no part of their own in the page."""
    for name, thing in metrics.items():
        if name in _APART or is_figure(thing) or not thing:
            continue
        items = thing.items() if isinstance(thing, Mapping) else enumerate(thing)
        known = wording.metric(name)
        for key, figure in items:
            label = f"{known.label}: {plain(key)}"
            yield (
                wording.Metric(label=label, meaning=known.meaning),
                show(figure, known.notation),
            )


def _parts_of_a_step(document: Document, plots: _Plots) -> dict[str, Any] | None:
    """Phases and rests, which make up the step."""
    rows: list[dict[str, Any]] = [
        {**row, "part": row.get("phase")} for row in document.get("phases") or ()
    ]
    rows += [{**figures, "part": name} for name, figures in (document.get("rests") or {}).items()]
    if not rows:
        return None
    colors = {str(row["part"]): charts.color_of(str(row["part"])) for row in rows}
    found = {
        title: charts.bars_of(rows, key, "part", colors=colors)
        for title, key in (("Time", "time"), ("Energy", "energy"))
    }
    return {
        "table": costs([{**row, "phase": ""} for row in rows], first="part", part="Part of a step"),
        "swatches": [colors[str(row["part"])] for row in rows],
        "plots": _placed(
            plots.place(charts.stack(bars), title, bars) for title, bars in found.items()
        ),
    }


def _timeline(timeline: Timeline, plots: _Plots) -> dict[str, Any] | None:
    steps = plots.place(charts.steps_chart(timeline), "Three steps")
    operations = plots.place(charts.operations_chart(timeline), "Operations of a traced step")
    if steps is None and operations is None:
        return None
    notes = [timeline.get("note"), charts.left_out(timeline)]
    return {
        "steps": steps,
        "operations": operations,
        "operations_note": plain(timeline.get("operations_note") or ""),
        "notes": [plain(note) for note in notes if note],
    }


def _operations(document: Document, plots: _Plots) -> dict[str, Any] | None:
    rows = document.get("operations") or ()
    if not rows:
        return None
    keys = {"time": "Most time, for one step", "energy": "Most energy, for one step"}
    return {
        "table": costs(sorted(rows, key=seconds, reverse=True)),
        "plots": _rankings(rows, "name", keys, plots, _TOP_OPERATIONS),
        "count": len(rows),
        "phases": [(plain(phase), charts.color_of(phase)) for phase in charts.phases_of(rows)],
    }


def _layers(document: Document, plots: _Plots) -> dict[str, Any] | None:
    rows = document.get("layers") or ()
    if not rows:
        return None
    # In the order of the model as long as that is readable, else the costliest.
    most = None if len(rows) <= _MOST_LAYER_BARS else _MOST_LAYER_BARS
    keys = {"time": "Time, for one step", "energy": "Energy, for one step"}
    return {
        "table": costs(rows, first="layer", name="Operation"),
        "plots": _rankings(rows, "layer", keys, plots, most),
    }


def _cores(metrics: Mapping[str, Any]) -> Table | None:
    lists = {name: metrics.get(name) for name in ("cpu_core_utilization", "idle_state_ratio")}
    known = {name: found for name, found in lists.items() if isinstance(found, (list, tuple))}
    count = max((len(found) for found in known.values()), default=0)
    if not count:
        return None
    rows = [
        {"core": f"{core}", **{n: found[core] for n, found in known.items() if core < len(found)}}
        for core in range(count)
    ]
    labels = {"cpu_core_utilization": "Utilization", "idle_state_ratio": "Idle state ratio"}
    return table(rows, {"core": "Core"}, labels)


def _memory(metrics: Mapping[str, Any], plots: _Plots) -> dict[str, Any] | None:
    found = metrics.get("memory_breakdown")
    if not isinstance(found, Mapping) or not found or is_figure(found):
        return None
    rows = [{"category": name, "memory": figure} for name, figure in found.items()]
    colors = {name: charts.series_color(index) for index, name in enumerate(found)}
    bars = charts.bars_of(rows, "memory", "category", colors=colors)
    return {
        "table": table(rows, {"category": "Category"}, {"memory": "Memory"}),
        "swatches": list(colors.values()),
        "plots": _placed([plots.place(charts.stack(bars), "By category", bars)]),
    }


def _rails(document: Document, plots: _Plots) -> dict[str, Any] | None:
    found = document.get("energy_by_rail") or {}
    if not found:
        return None
    rows = [{"rail": name, "energy": figure} for name, figure in found.items()]
    return {
        "table": table(rows, {"rail": "Rail"}, {"energy": "Energy"}),
        "plots": _rankings(rows, "rail", {"energy": "For one step"}, plots),
    }


def _rankings(
    rows: Sequence[Mapping[str, Any]],
    name: str,
    keys: Mapping[str, str],
    plots: _Plots,
    most: int | None = None,
) -> list[_Plot]:
    """A chart of bars for each key that has values."""
    found = {title: charts.bars_of(rows, key, name, most) for key, title in keys.items()}
    return _placed(plots.place(charts.ranking(bars), title, bars) for title, bars in found.items())


def _placed(found: Iterable[_Plot | None]) -> list[_Plot]:
    return [plot for plot in found if plot is not None]


def _fact(name: str, thing: Any) -> tuple[str, str | Shown]:
    if is_figure(thing):
        return wording.label(name), show(thing)
    return wording.label(name), _said(thing)


def _facts(document: Document) -> list[tuple[str, list[tuple[str, str]]]]:
    """What ran, on what, with which data: a list of facts for each."""
    device = dict(document.get("device") or {})
    if device.get("memory") is not None:
        device["memory"] = quantity(device["memory"], "B")
    run = {key: document.get(key) for key in ("run", "workload", "engine", "state", "schema")}
    run["run"] = Path(str(run["run"])).name  # reports get shared: where it lay is nobody's business
    groups = {
        "Run": {**run, "steps": wording.steps(document)},
        "Device": device,
        "Data": document.get("data") or {},
        "Environment": document.get("environment") or {},
    }
    return [
        (
            name,
            [(wording.label(key), _said(value)) for key, value in group.items() if _known(value)],
        )
        for name, group in groups.items()
        if any(map(_known, group.values()))
    ]


def _known(value: object) -> bool:
    return value is not None and value != ""


def _said(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, Mapping):
        return "; ".join(f"{plain(key)}: {_said(part)}" for key, part in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(_said(part) for part in value)
    return plain(value)


def _channel(channel: Mapping[str, Any]) -> dict[str, Any]:
    interval, samples = channel.get("update_interval"), channel.get("samples")
    texts = {key: plain(channel.get(key) or "") for key in ("name", "unit", "kind", "domain")}
    return {
        **texts,
        "role": wording.label(channel.get("role") or ""),
        "source": plain(channel.get("source") or ""),
        "interval": "not seen" if interval is None else quantity(interval, "s"),
        "samples": NO_VALUE if samples is None else f"{samples:,}",
        "seconds": interval,
        "count": samples,
    }
