"""The part of a report about one run: its sections, in the order of the page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

from wattstep.report import conditions, machines, wording
from wattstep.report.divisions import beside, divisions, named_layers, spoken_layer
from wattstep.report.html import charts
from wattstep.report.html.flame import flame_chart
from wattstep.report.html.learning import learning_charts
from wattstep.report.html.page import (
    Plot,
    Plots,
)
from wattstep.report.html.shared import Unknown
from wattstep.report.html.thermal import course
from wattstep.report.memory_tables import category
from wattstep.report.planned import planned_table, planned_title
from wattstep.report.tables import Row, Table, costs, groups, seconds, table
from wattstep.report.values import (
    NO_VALUE,
    Shown,
    plain,
    quantity,
    show,
)
from wattstep.schema.configuration import NOT_TOLD
from wattstep.schema.failures import Failures
from wattstep.schema.figure import Figure
from wattstep.schema.figures import Metrics
from wattstep.schema.report_rows import CostRow, SampledChannel
from wattstep.schema.run_report import RunReport

Told: TypeAlias = tuple[wording.Metric, Shown]  # a figure with its label and meaning

PART = "Part of a step"
SERIES = tuple(f"--series-{n}" for n in range(1, 7))
_TOP_OPERATIONS = 12
_MOST_LAYER_BARS = 12
_MOST_COSTLIEST = 3
# Shown in parts of their own.
_APART = ("cpu_core_utilization", "idle_state_ratio", "memory_breakdown", "memory_highest")


def run_section(id: str, report: RunReport, plots: Plots, failures: Failures) -> dict[str, Any]:
    """Variables of the template `run.html` for a run; a part that fails is left out and noted."""
    metrics = report.metrics
    empty: dict[str, Any] = {
        part: [] for part in ("cards", "unknown", "others", "missing", "how", "meanings")
    }
    parts: Mapping[str, tuple[Callable[[], Any], Any]] = {
        "title": (lambda: wording.title(report), id),
        "credit": (lambda: plain(report.imported.get("credit") or ""), ""),
        "setting": (lambda: _setting(report), []),
        "sensors": (lambda: machines.sensors(report.device), ""),
        "virtual": (lambda: machines.virtuality(report.device), ""),
        "cautions": (lambda: wording.cautions(report), []),
        "summary": (lambda: wording.summary(report), []),
        "divided": (lambda: _divided(report), []),
        "costliest": (lambda: _costliest(report), None),
        "step": (lambda: _parts_of_a_step(report, plots), None),
        "operations": (lambda: _operations(report, plots), None),
        "layers": (lambda: _layers(report, plots), None),
        "learning": (lambda: _learning(report, plots), []),
        "course": (lambda: _course(report, plots), None),
        "cores": (lambda: _cores(metrics), None),
        "memory": (lambda: _memory(metrics, plots), None),
        "rails": (lambda: _rails(report, plots), None),
        "roles": (lambda: _roles(report), None),
        "planned": (lambda: _planned(report), None),
        "conditions": (lambda: _conditions(report), None),
        "recording": (lambda: _recording(report), []),
        "facts": (lambda: _facts(report), []),
        "channels": (lambda: [_channel(each) for each in report.channels], []),
    }
    name = Path(report.run or id).name

    def guarded(part: str, work: Callable[[], Any], otherwise: Any) -> Any:
        return failures.guard(f"{name}: {part}", work, otherwise)

    return {
        "id": id,
        "stand_in": report.data is not None and report.data.stand_in,
        "state": plain(report.state),
        **guarded("figures", lambda: _headlines(report), empty),
        **{part: guarded(part, work, other) for part, (work, other) in parts.items()},
    }


def _setting(report: RunReport) -> list[str]:
    """Settings of the run, and the machine where it says which one it is; whose sensors, a chip of its own says."""
    machine = machines.named(report.device)
    known = [] if machine == machines.UNKNOWN else [machine]
    return [part for part in (*wording.setting(report), *known) if part != NOT_TOLD]


def _divided(report: RunReport) -> list[dict[str, Any]]:
    """The step as bars, time and energy of the same parts together."""
    by_division: dict[str, dict[str, Any]] = {}
    for division in divisions(report, energy_by_kind=True):
        group = by_division.setdefault(division.by, {"by": division.by, "bars": [], "parts": {}})
        segments = []
        for part in division.parts:
            series = SERIES[len(group["parts"]) % len(SERIES)]
            color = charts.color_of(part.name) if division.by == "phase" else series
            known = group["parts"].setdefault(plain(part.name), {"color": color, "figures": {}})
            known["figures"][division.of] = None if part.figure is None else show(part.figure)
            segments.append((plain(part.name), part.share, known["color"]))
        bar = {"of": division.of, "status": division.status, "segments": segments}
        group["bars"].append(bar)
    return list(by_division.values())


def _costliest(report: RunReport) -> dict[str, Any] | None:
    """The layers that cost most, by energy where it is known; operations where there are no layers."""
    layers = named_layers(report)
    of, rows = ("layers", layers) if layers else ("operations", list(report.operations))
    for what in ("energy", "time"):
        known = [row for row in rows if row.figures.value(what)]
        if known:
            top = sorted(known, key=lambda row: -(row.figures.value(what) or 0.0))
            rows_of = [_cost(row, what) for row in top[:_MOST_COSTLIEST]]
            return {"of": of, "by": what, "rows": rows_of}
    return None


def _cost(row: CostRow, what: str) -> tuple[str, Shown]:
    layer = spoken_layer(row.layer)
    texts = (layer,) if not row.name else (row.name, layer, row.phase)
    return plain(" · ".join(text for text in texts if text)), show(row.figures[what])


def _learning(report: RunReport, plots: Plots) -> list[Plot]:
    charts = learning_charts(report.evaluations)
    return _placed(plots.place(chart, title) for title, chart in charts.items())


def _recording(report: RunReport) -> list[tuple[str, str | Shown]]:
    return [_fact(*item) for item in report.recording.items()]


def _headlines(report: RunReport) -> dict[str, Any]:
    """The figures on cards; others in a list; those missing for one reason together; how they were got."""
    metrics = report.metrics
    single = {
        name: shown for name in metrics if (shown := wording.show_metric(metrics, name)) is not None
    }
    first = list(wording.headlines(report))
    cards = [(known, shown) for _, known, shown in first]
    others = [(wording.metric(n), s) for n, s in single.items() if n not in wording.HEADLINES]
    others += _nested(metrics)
    always = wording.always_asked(report)
    asked = {known.label for name, known, _ in first if name in always}
    missing = [(known, shown) for known, shown in (*cards, *others) if shown.missing]
    known_cards, known_others = (
        [(known, shown) for known, shown in those if not shown.missing] for those in (cards, others)
    )
    return {
        "cards": known_cards,
        "unknown": _by_reason(one for one in missing if one[0].label in asked),
        "others": known_others,
        "missing": _by_reason(
            (one for one in missing if one[0].label not in asked),
            {plain(row.what): plain(row.reason) for row in report.missing},
        ),
        "how": _how(known_cards),
        "meanings": [
            (known.label, known.meaning)
            for known, _ in (*known_cards, *known_others)
            if known.meaning
        ],
    }


def _by_reason(
    figures: Iterable[Told], things: Mapping[str, str] = MappingProxyType({})
) -> list[Unknown]:
    """What is missing for one reason together: figures, and things that have no figure."""
    by_reason: dict[str, dict[str, Shown | None]] = {}
    for known, shown in figures:
        by_reason.setdefault(shown.reason.rstrip("."), {})[known.label] = shown
    for what, reason in things.items():
        by_reason.setdefault(reason.rstrip("."), {}).setdefault(what, None)
    return [
        Unknown(named=list(named.items()), reason=reason) for reason, named in by_reason.items()
    ]


def _how(cards: Sequence[Told]) -> list[tuple[str, str]]:
    """How the figures of the cards came about: each method and source once, with what it is of."""
    labels_of: dict[str, list[str]] = {}
    for known, shown in cards:
        for text in (*shown.detail.split("; "), shown.reason):
            if text:
                labels_of.setdefault(text, []).append(known.label)
    return [(text, ", ".join(dict.fromkeys(labels))) for text, labels in labels_of.items()]


def _nested(metrics: Metrics) -> Iterable[Told]:
    """Lists and mappings of figures that have no part of their own in the page; what they mean, once."""
    explained = set()
    for name, key, figure in metrics.each():
        if key is not None and name not in _APART:
            known = wording.metric(name)
            meaning = "" if name in explained else known.meaning
            explained.add(name)
            label = f"{known.label}: {plain(key)}"
            yield wording.Metric(label=label, meaning=meaning), show(figure, known.notation)


def _parts_of_a_step(report: RunReport, plots: Plots) -> dict[str, Any] | None:
    """Phases and unattributed parts, which make up the step."""
    rows: list[dict[str, Any]] = [{**row.to_dict(), "part": row.phase} for row in report.phases]
    rows += [
        {**figures, "part": wording.unattributed_name(n, report)}
        for n, figures in beside(report, "phases").items()
    ]
    outside = [{**vars(span), "part": n} for n, span in report.outside_steps.items()]
    if not rows:
        return None
    colors = {str(row["part"]): charts.color_of(str(row["part"])) for row in rows}
    tables = {
        title: charts.bars_of(rows, key, "part", colors=colors)
        for title, key in (("Time", "time"), ("Energy", "energy"))
    }
    return {
        "of": "the time" if report.operations_of == wording.RECORDING else "a step",
        "whole": wording.whole_step(report),
        "table": costs(
            [{**row, "phase": ""} for row in rows],
            first="part",
            part="Part of it" if report.operations_of == wording.RECORDING else PART,
            **_whose_cores(report),
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
            plots.place(charts.stack(bars), title, bars) for title, bars in tables.items()
        ),
    }


def _whose_cores(report: RunReport) -> dict[str, str]:
    """The heading of the column of utilization, where the machine's is not that of the sensors."""
    return (
        {"cpu_utilization": "CPU of the training machine"}
        if machines.sensors(report.device)
        else {}
    )


def _operations(report: RunReport, plots: Plots) -> dict[str, Any] | None:
    if not report.operations:
        return None
    rows = [row.to_dict() for row in sorted(report.operations, key=seconds, reverse=True)]
    of = wording.operations_of(report)
    keys = {"time": f"Most time, {of}", "energy": f"Most energy, {of}"}
    table = costs(rows, **_whose_cores(report))
    notes = [plain(note) for note in report.operations_notes]
    return {
        "table": replace(table, notes=(*notes, *table.notes)),
        "plots": rankings(rows, "name", keys, plots, _TOP_OPERATIONS),
        "count": len(rows),
        "flame": plots.place(flame_chart(report.operations, of), f"Operations by module, {of}"),
        "groups": groups(report.energy_groups, listed=True) if report.energy_groups else None,
        "phases": [
            (plain(phase), charts.color_of(phase))
            for phase in charts.phases_of(row.phase for row in report.operations)
        ],
    }


def _layers(report: RunReport, plots: Plots) -> dict[str, Any] | None:
    rows = [row.to_dict() for row in report.layers]
    if not rows:
        return None
    # In the order of the model as long as that is readable, else the costliest.
    most = None if len(rows) <= _MOST_LAYER_BARS else _MOST_LAYER_BARS
    of = wording.operations_of(report)
    keys = {"time": f"Time, {of}", "energy": f"Energy, {of}"}
    return {
        "table": costs(rows, first="layer", name="Operation", **_whose_cores(report)),
        "plots": rankings(rows, "layer", keys, plots, most),
    }


def _course(report: RunReport, plots: Plots) -> dict[str, Any] | None:
    curve = course(report)
    placed = None if curve is None else plots.place(curve["chart"], "Over time")
    if curve is None or placed is None:
        return None
    return {
        "plots": [replace(placed, statuses=curve["statuses"])],
        "sentences": curve["sentences"],
        "zones": curve["zones"],
        "throttled": curve["throttled"],
    }


def _cores(metrics: Metrics) -> Table | None:
    known = {name: metrics.listed(name) for name in ("cpu_core_utilization", "idle_state_ratio")}
    count = max((len(figures) for figures in known.values()), default=0)
    if not count:
        return None
    rows = [
        {
            "core": f"{core}",
            **{n: figures[core] for n, figures in known.items() if core < len(figures)},
        }
        for core in range(count)
    ]
    labels = {"cpu_core_utilization": "Utilization", "idle_state_ratio": "Idle state ratio"}
    return table(rows, {"core": "Core"}, labels)


def _memory(metrics: Metrics, plots: Plots) -> dict[str, Any] | None:
    breakdown = metrics.parts("memory_breakdown")
    if not breakdown:
        return None
    rows: list[Row] = [
        {"category": category(name).label, "memory": figure} for name, figure in breakdown.items()
    ]
    colors = {category(name).label: category(name).color for name in breakdown}
    # What was never touched, and a remainder below 0, are parts without a length.
    held = [
        row for row, figure in zip(rows, breakdown.values(), strict=True) if (figure.value or 0) > 0
    ]
    bars = charts.bars_of(held, "memory", "category", colors=colors)
    return {
        "table": table(rows, {"category": "Category"}, {"memory": "Memory"}),
        "swatches": list(colors.values()),
        "plots": _placed([plots.place(charts.stack(bars), "By category", bars)]),
    }


def _rails(report: RunReport, plots: Plots) -> dict[str, Any] | None:
    rails = report.energy_by_rail
    if not rails:
        return None
    of = wording.operations_of(report)
    whole, contains = _lone_total(report)
    first = [{"rail": f"{whole} ({contains})", "energy": rails[whole]}] if whole in rails else []
    rows = [{"rail": name, "energy": rails[name]} for name in rails if name != whole]
    rows += [
        {"rail": f"{name} (not in the total)", "energy": figure}
        for name, figure in report.energy_outside.items()
    ]
    return {
        "with_idle": "energy_per_step_with_idle" in report.metrics,
        "table": table([*first, *rows], {"rail": "Rail"}, {"energy": "Energy"}),
        "plots": rankings(rows, "rail", {"energy": wording.label(of)}, plots),
    }


def _roles(report: RunReport) -> dict[str, Any] | None:
    """The rails for the first screen, where their sum misleads."""
    rails = conditions.rails(report)
    if rails is None:
        return None
    rows = [(name, show(figure), role) for name, figure, role in rails.roles]
    return {"rows": rows, "idle": rails.idle, "sum": rails.sum}


def _lone_total(report: RunReport) -> tuple[str, str]:
    """The rail that is the total by itself, beside others, and what it is; "" where there is none."""
    rails = report.energy_by_rail
    totals = [
        channel
        for channel in report.channels
        if channel.name in rails and channel.role.endswith("_total")
    ]
    if len(totals) != 1 or len(rails) < 2:
        return "", ""
    # A processor's package is a total as far as sensors go; it does not hold the graphics card.
    contains = totals[0].domain in ("system", "battery")
    return totals[0].name, "total, contains the others" if contains else "total"


def _planned(report: RunReport) -> dict[str, Any] | None:
    """What the plan of the run predicted beside what came."""
    texts = planned_table(report)
    return None if texts is None else {"title": planned_title(report), "texts": texts}


def _conditions(report: RunReport) -> dict[str, Any] | None:
    parts = {
        "sentences": conditions.sentences(report),
        "stretches": conditions.stretches(report),
        "channels": conditions.power_channels(report),
    }
    return parts if any(parts.values()) else None


def rankings(
    rows: Sequence[Row],
    name: str,
    keys: Mapping[str, str],
    plots: Plots,
    most: int | None = None,
) -> list[Plot]:
    """A chart of bars for each key that has values."""
    bars_by_title = {title: charts.bars_of(rows, key, name, most) for key, title in keys.items()}
    return _placed(
        plots.place(charts.ranking(bars), title, bars) for title, bars in bars_by_title.items()
    )


def _placed(plots: Iterable[Plot | None]) -> list[Plot]:
    return [plot for plot in plots if plot is not None]


def _fact(name: str, thing: Any) -> tuple[str, str | Shown]:
    if isinstance(thing, Figure):
        return wording.label(name), show(thing)
    return wording.label(name), _text(thing)


def _facts(report: RunReport) -> list[tuple[str, list[tuple[str, str]]]]:
    """Facts of the run, its device, and its data: a list each."""
    device: dict[str, object] = dict(report.device)
    if (memory := report.device.get("memory")) is not None:
        device["memory"] = quantity(memory, "B")
    run = {
        "run": Path(report.run).name,  # reports get shared: where it lay is nobody's business
        **{key: getattr(report, key) for key in ("workload", "engine", "state", "schema")},
        "imported": wording.imported_from(report),
    }
    groups = {
        "Run": {**run, **report.options, "steps": wording.steps(report)},
        "Device": device,
        "Data": {} if report.data is None else vars(report.data),
        "Environment": report.environment,
    }
    return [
        (
            name,
            [
                (wording.label(key), _text(value))
                for key, value in group.items()
                if _is_known(value)
            ],
        )
        for name, group in groups.items()
        if any(map(_is_known, group.values()))
    ]


def _is_known(value: object) -> bool:
    return value is not None and value != ""


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, Mapping):
        return "; ".join(f"{plain(key)}: {_text(part)}" for key, part in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(_text(part) for part in value)
    return plain(value)


def _channel(channel: SampledChannel) -> dict[str, Any]:
    interval, samples = channel.update_interval, channel.samples
    texts = {key: plain(getattr(channel, key)) for key in ("name", "unit", "kind", "domain")}
    return {
        **texts,
        "role": wording.label(channel.role),
        "source": plain(channel.source),
        "interval": "not seen" if interval is None else quantity(interval, "s"),
        "samples": NO_VALUE if samples is None else f"{samples:,}",
        "refresh": None if channel.refresh is None else show(channel.refresh),
        "seconds": interval,
        "count": samples,
    }
