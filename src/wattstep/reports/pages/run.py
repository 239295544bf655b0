"""The part of a report about one run: its sections, in the order of the page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from wattstep.records.failures import Failures
from wattstep.reports import conditions, machines, wording
from wattstep.reports.memory_tables import category
from wattstep.reports.pages import charts
from wattstep.reports.pages.learning import learning_charts
from wattstep.reports.pages.page import (
    Plot,
    Plots,
)
from wattstep.reports.pages.thermal import course
from wattstep.reports.tables import Table, costs, groups, seconds, table
from wattstep.reports.values import (
    NO_VALUE,
    Shown,
    is_figure,
    plain,
    quantity,
    show,
)
from wattstep.reports.wording import Document

Timeline = Mapping[str, Any]

PART = "Part of a step"
_TOP_OPERATIONS = 12
_MOST_LAYER_BARS = 40
_COMPARED = ("step_time", "throughput", "energy_per_step", "energy_per_sample", "peak_memory")
_RANKED = ("step_time", "energy_per_step", "peak_memory")
# Shown in parts of their own.
_APART = ("cpu_core_utilization", "idle_state_ratio", "memory_breakdown", "memory_highest")


def run_section(
    id: str, document: Document, timeline: Timeline, plots: Plots, failures: Failures
) -> dict[str, Any]:
    """What the template `run.html` is told of a run; a part that fails is left out and noted."""
    metrics = document.get("metrics") or {}
    empty: dict[str, Any] = {"cards": [], "unknown": [], "others": []}
    parts: Mapping[str, tuple[Callable[[], Any], Any]] = {
        "title": (lambda: wording.title(document), id),
        "setting": (lambda: wording.setting(document), []),
        "sensors": (lambda: machines.sensors(document), ""),
        "virtual": (lambda: machines.virtuality(document), ""),
        "cautions": (lambda: wording.cautions(document), []),
        "summary": (lambda: wording.summary(document), []),
        "step": (lambda: _parts_of_a_step(document, plots), None),
        "timeline": (lambda: _timeline(timeline, plots), None),
        "operations": (lambda: _operations(document, plots), None),
        "layers": (lambda: _layers(document, plots), None),
        "learning": (lambda: _learning(document, plots), []),
        "course": (lambda: _course(document, plots), None),
        "cores": (lambda: _cores(metrics), None),
        "memory": (lambda: _memory(metrics, plots), None),
        "rails": (lambda: _rails(document, plots), None),
        "conditions": (lambda: _conditions(document), None),
        "missing": (lambda: _missing(document), []),
        "recording": (lambda: _recording(document), []),
        "facts": (lambda: _facts(document), []),
        "channels": (lambda: [_channel(each) for each in document.get("channels") or ()], []),
    }
    name = Path(str(document.get("run", id))).name

    def guarded(part: str, work: Callable[[], Any], otherwise: Any) -> Any:
        return failures.guard(f"{name}: {part}", work, otherwise)

    return {
        "id": id,
        "stand_in": bool((document.get("data") or {}).get("stand_in")),
        "state": plain(document.get("state") or ""),
        **guarded("figures", lambda: _headlines(document), empty),
        **{part: guarded(part, work, other) for part, (work, other) in parts.items()},
    }


def _learning(document: Document, plots: Plots) -> list[Plot]:
    found = learning_charts(document.get("evaluations") or ())
    return _placed(plots.place(chart, title) for title, chart in found.items())


def _missing(document: Document) -> list[tuple[str, str]]:
    rows = document.get("missing") or ()
    return [(plain(row["what"]), plain(row["reason"])) for row in rows]


def _recording(document: Document) -> list[tuple[str, str | Shown]]:
    return [_fact(*item) for item in (document.get("recording") or {}).items()]


def _headlines(document: Document) -> dict[str, Any]:
    """The figures on cards; those missing for one reason share a card; the others in a list."""
    metrics = document.get("metrics") or {}
    single = {
        name: show(thing, wording.metric(name).notation)
        for name, thing in metrics.items()
        if is_figure(thing)
    }
    cards = [(wording.metric_of(document, n), single[n]) for n in wording.HEADLINES if n in single]
    unknown: dict[str, list[tuple[wording.Metric, Shown]]] = {}
    for known, shown in cards:
        if shown.missing:
            unknown.setdefault(shown.reason, []).append((known, shown))
    others = [(wording.metric(n), s) for n, s in single.items() if n not in wording.HEADLINES]
    return {
        "cards": [(known, shown) for known, shown in cards if not shown.missing],
        "unknown": [(figures, reason) for reason, figures in unknown.items()],
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


def _parts_of_a_step(document: Document, plots: Plots) -> dict[str, Any] | None:
    """Phases and rests, which make up the step."""
    rows: list[dict[str, Any]] = [
        {**row, "part": row.get("phase")} for row in document.get("phases") or ()
    ]
    rests = _rests_of_phases(document)
    rows += [
        {**_of_phases(n, rest, document), "part": wording.rest_name(n)} for n, rest in rests.items()
    ]
    beside = document.get("rests_outside_steps") or {}
    outside = [{**rest, "part": n} for n, rest in beside.items()]
    if not rows:
        return None
    colors = {str(row["part"]): charts.color_of(str(row["part"])) for row in rows}
    found = {
        title: charts.bars_of(rows, key, "part", colors=colors)
        for title, key in (("Time", "time"), ("Energy", "energy"))
    }
    return {
        "of": "the time" if document.get("operations_of") == wording.RECORDING else "a step",
        "whole": wording.whole_step(document),
        "table": costs(
            [{**row, "phase": ""} for row in rows],
            first="part",
            part="Part of it" if document.get("operations_of") == wording.RECORDING else PART,
            **_whose_cores(document),
        ),
        "swatches": [colors[str(row["part"])] for row in rows],
        "outside": table(
            outside,
            {"part": "Beside the steps"},
            {"total": "Time in all", "energy": "Energy in all"},
        )
        if outside
        else None,
        "plots": _placed(
            plots.place(charts.stack(bars), title, bars) for title, bars in found.items()
        ),
    }


def _rests_of_phases(document: Document) -> Mapping[str, Any]:
    """The rests, and what phases leave out where single operations stand in groups instead."""
    rests: Mapping[str, Any] = document.get("rests") or {}
    left = (document.get("not_resolved") or {}).get("phases") or {}
    if "energy" not in left or "not_resolved" in rests:
        return rests
    return {**rests, "not_resolved": {}}


def _of_phases(name: str, rest: Mapping[str, Any], document: Document) -> Mapping[str, Any]:
    """A rest beside the phases: what was too short is less there than beside single operations."""
    if name != "not_resolved":
        return rest
    left: Mapping[str, Any] = (document.get("not_resolved") or {}).get("phases") or {}
    return {**{key: rest[key] for key in ("time", "share") if key in rest}, **left}


def _whose_cores(document: Document) -> dict[str, str]:
    """The heading of the column of utilization, where the machine's is not that of the sensors."""
    return {"cpu_utilization": "CPU of the training machine"} if machines.sensors(document) else {}


def _timeline(timeline: Timeline, plots: Plots) -> dict[str, Any] | None:
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


def _operations(document: Document, plots: Plots) -> dict[str, Any] | None:
    rows = document.get("operations") or ()
    if not rows:
        return None
    of = wording.operations_of(document)
    keys = {"time": f"Most time, {of}", "energy": f"Most energy, {of}"}
    table = costs(sorted(rows, key=seconds, reverse=True), **_whose_cores(document))
    notes = [plain(note) for note in document.get("operations_notes") or ()]
    return {
        "table": replace(table, notes=(*notes, *table.notes)),
        "plots": rankings(rows, "name", keys, plots, _TOP_OPERATIONS),
        "count": len(rows),
        "groups": groups(found, listed=True) if (found := document.get("energy_groups")) else None,
        "phases": [(plain(phase), charts.color_of(phase)) for phase in charts.phases_of(rows)],
    }


def _layers(document: Document, plots: Plots) -> dict[str, Any] | None:
    rows = document.get("layers") or ()
    if not rows:
        return None
    # In the order of the model as long as that is readable, else the costliest.
    most = None if len(rows) <= _MOST_LAYER_BARS else _MOST_LAYER_BARS
    of = wording.operations_of(document)
    keys = {"time": f"Time, {of}", "energy": f"Energy, {of}"}
    return {
        "table": costs(rows, first="layer", name="Operation", **_whose_cores(document)),
        "plots": rankings(rows, "layer", keys, plots, most),
    }


def _course(document: Document, plots: Plots) -> dict[str, Any] | None:
    found = course(document)
    placed = None if found is None else plots.place(found["chart"], "Over time")
    if found is None or placed is None:
        return None
    return {
        "plots": [replace(placed, statuses=found["statuses"])],
        "sentences": found["sentences"],
        "zones": found["zones"],
        "throttled": found["throttled"],
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


def _memory(metrics: Mapping[str, Any], plots: Plots) -> dict[str, Any] | None:
    found = metrics.get("memory_breakdown")
    if not isinstance(found, Mapping) or not found or is_figure(found):
        return None
    rows = [{"category": category(name).label, "memory": found[name]} for name in found]
    colors = {category(name).label: category(name).color for name in found}
    # What was never touched, and a remainder below 0, are parts without a length.
    held = [row for row in rows if (row["memory"]["value"] or 0) > 0]
    bars = charts.bars_of(held, "memory", "category", colors=colors)
    return {
        "table": table(rows, {"category": "Category"}, {"memory": "Memory"}),
        "swatches": list(colors.values()),
        "plots": _placed([plots.place(charts.stack(bars), "By category", bars)]),
    }


def _rails(document: Document, plots: Plots) -> dict[str, Any] | None:
    found = document.get("energy_by_rail") or {}
    if not found:
        return None
    of = wording.operations_of(document)
    whole, contains = _lone_total(document)
    first = [{"rail": f"{whole} ({contains})", "energy": found[whole]}] if whole in found else []
    rows = [{"rail": name, "energy": found[name]} for name in found if name != whole]
    beside = document.get("energy_outside") or {}
    rows += [
        {"rail": f"{name} (not in the total)", "energy": figure} for name, figure in beside.items()
    ]
    return {
        "with_idle": "energy_per_step_with_idle" in (document.get("metrics") or {}),
        "table": table([*first, *rows], {"rail": "Rail"}, {"energy": "Energy"}),
        "plots": rankings(rows, "rail", {"energy": wording.label(of)}, plots),
    }


def _lone_total(document: Document) -> tuple[str, str]:
    """The rail that is the total by itself, beside others, and what it is; "" where there is none."""
    rails = document.get("energy_by_rail") or {}
    found = [
        channel
        for channel in document.get("channels") or ()
        if channel.get("name") in rails and str(channel.get("role")).endswith("_total")
    ]
    if len(found) != 1 or len(rails) < 2:
        return "", ""
    # A processor's package is a total as far as sensors go; it does not hold the graphics card.
    contains = found[0].get("domain") in ("system", "battery")
    return str(found[0]["name"]), "total, contains the others" if contains else "total"


def _conditions(document: Document) -> dict[str, Any] | None:
    parts = {
        "sentences": conditions.sentences(document),
        "stretches": conditions.stretches(document),
        "channels": conditions.power_channels(document),
    }
    return parts if any(parts.values()) else None


def rankings(
    rows: Sequence[Mapping[str, Any]],
    name: str,
    keys: Mapping[str, str],
    plots: Plots,
    most: int | None = None,
) -> list[Plot]:
    """A chart of bars for each key that has values."""
    found = {title: charts.bars_of(rows, key, name, most) for key, title in keys.items()}
    return _placed(plots.place(charts.ranking(bars), title, bars) for title, bars in found.items())


def _placed(found: Iterable[Plot | None]) -> list[Plot]:
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
    run["imported"] = wording.imported_from(document)
    groups = {
        "Run": {**run, **(document.get("options") or {}), "steps": wording.steps(document)},
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
        "refresh": show(channel["refresh"]) if is_figure(channel.get("refresh")) else None,
        "seconds": interval,
        "count": samples,
    }
