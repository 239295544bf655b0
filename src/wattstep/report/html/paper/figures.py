"""The figures of the TX2 paper: of which quantities each is, over what, and how it is drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final

from wattstep.insight.observe.evidence import metric
from wattstep.insight.observe.groups import Group
from wattstep.insight.observe.growth import Ends, ends_of
from wattstep.insight.observe.memory import NOT_FOLLOWED
from wattstep.insight.observe.sensors import COMPUTED, NOT_FOLLOWING, computed_power, replayed
from wattstep.report import daily_tables
from wattstep.report.html.charts import Curve, series_color
from wattstep.report.html.daily_chart import accuracy_chart
from wattstep.report.html.paper.by_batch import (
    SWEEP,
    Bars,
    batch_rows,
    batch_table,
    draw_bars,
    draw_lines,
)
from wattstep.report.html.paper.drawn import Drawn, KeyEntry, NotDrawn, Panel
from wattstep.report.html.paper.published import label, published
from wattstep.report.html.paper.readings import WHOLE, Reading, Readings, names_of, pooled
from wattstep.report.html.paper.three_steps import (
    SUMMARY,
    Chosen,
    draw_steps,
    summary,
)
from wattstep.report.tables import table
from wattstep.report.values import plain, show
from wattstep.run.three_steps import POWER_ROLE, RAIL
from wattstep.schema.daily_report import DailyReport


@dataclass(frozen=True, kw_only=True)
class PaperFigure:
    """A figure of the paper.

    Attributes:
        title: Title of the figure.
        draw: Draws it from the runs of a report.
    """

    title: str
    draw: Callable[[Readings], Drawn | NotDrawn]


def _together(remark: str, groups: Sequence[Group]) -> list[str]:
    """A remark about some groups, said once; nothing where there are none."""
    names = ", ".join(plain(group.label) for group in groups)
    return [f"{names}: {remark}."] if groups else []


def growth(groups: Sequence[Group], name: str, unit: str, what: str) -> list[str]:
    """Ratio of a metric at the largest batch to that at the smallest, a sentence a group."""
    changes = [(group, ends_of(group, metric(name, unit), logarithm=True)) for group in groups]
    return [
        f"{plain(group.label)}: at batch {ends.most} {what} is "
        f"{show(ends.change.figure(), 'times').text} that at batch {ends.least}."
        for group, ends in changes
        if isinstance(ends, Ends)
    ]


def _missing(readings: Readings, name: str, unit: str) -> list[str]:
    """Reasons why a metric of runs is not known, each once."""
    figures = [run.observed.figure(name, unit) for run in readings.runs]
    return list(dict.fromkeys(plain(figure.reason) for figure in figures if figure.missing))


# --- 3: loads over three steps ----------------------------------------------------------------------

_GPU = "gpu_utilization"
_MOST_PANELS = 12  # cores with a panel of their own; more share one


def _loads(reading: Reading) -> list[Curve]:
    channels = reading.three_steps.channels
    cores = [(one, one.core) for one in channels if one.core is not None]
    apart = len(cores) <= _MOST_PANELS
    return [
        *(
            Curve(channel=one, panel=_core(reading, core))
            if apart
            else Curve(channel=one, panel=one.role, core=core)
            for one, core in cores
        ),
        *(Curve(channel=one, panel=one.role) for one in channels if one.role == _GPU),
    ]


def _core(reading: Reading, number: int) -> str:
    kind = reading.kinds.get(number)
    return f"core {number} ({plain(kind)})" if kind else f"core {number}"


def _load_row(run: Chosen, curve: Curve) -> dict[str, Any]:
    channel, core = curve.channel, curve.channel.core
    name = _GPU if core is None else f"cpu_core_utilization.{core}"
    whole = run.reading.observed.metrics.get(name)
    part = plain(channel.name) if core is None else _core(run.reading, core)
    return {"part": part, **summary(channel), **({} if whole is None else {"whole": whole})}


def _without_loads(runs: Sequence[Chosen]) -> list[str]:
    """Cores whose load was sampled, but not within these steps; and why there is no GPU."""
    lacking = [
        plain(run.label)
        for run in runs
        if "cpu_core_utilization.0" in run.reading.observed.metrics
        and all(curve.channel.role == _GPU for curve in run.channels)
    ]
    remark = f"{'; '.join(lacking)}: the load of cores has no sample within these steps."
    reasons = _missing(Readings(runs=[run.reading for run in runs]), _GPU, "ratio")
    return [remark] * bool(lacking) + [f"GPU utilization is missing: {each}." for each in reasons]


# --- 4: utilization by batch size ---------------------------------------------------------------------

_UTILIZATION = {"gpu_utilization": "GPU utilization", "cpu_utilization": "CPU utilization"}


def _changes(readings: Readings, groups: Sequence[Group]) -> Iterator[str]:
    for group in groups:
        for name, title in _UTILIZATION.items():
            ends = ends_of(group, metric(name), logarithm=False)
            if isinstance(ends, Ends):
                change = show(ends.change.figure()).text.replace(" %", " points")
                yield (
                    f"{plain(group.label)}: {title} changes by {change} from batch {ends.least} to "
                    f"{ends.most}."
                )
    for name, title in _UTILIZATION.items():
        known = (run.figure(name, "ratio") for group in groups for run in group.runs)
        if all(figure.missing for figure in known):
            yield f"{title} is missing: {'; '.join(_missing(readings, name, 'ratio'))}."
    yield from _together(NOT_FOLLOWING, [group for group in groups if replayed(group.runs)])


# --- 5: idle share of each core -----------------------------------------------------------------------

_IDLE = "idle_state_ratio"


def _idle(readings: Readings, group: Group) -> Bars:
    """Bars of each batch size side by side at each core."""
    kinds = readings.of(group.runs[0]).kinds
    cores = {name: name.rpartition(".")[2] for name in names_of(group, _IDLE)}
    names = {
        name: " ".join(["core", core, kinds.get(int(core), "")]).strip()
        for name, core in cores.items()
    }
    rows = [
        {
            "run": group.label, "batch": f"{batch:,}" if batch else "", "core": core,
            "kind": kinds.get(int(core), ""), "idle": pooled(group, name, batch, "ratio"),
        }
        for batch in group.batches
        for name, core in cores.items()
    ]  # fmt: skip
    return Bars(
        places=list(cores.values()), rows=rows, level=published(5)[0].value,
        series=[
            [
                (names[name], f"batch {batch:,}" if batch else "",
                 pooled(group, name, batch, "ratio"), series_color(number))
                for name in cores
            ]
            for number, batch in enumerate(group.batches)
        ],
        key=[
            KeyEntry(mark="■", color=series_color(number), label=f"batch {batch:,}")
            for number, batch in enumerate(group.batches)
            if batch
        ],
    )  # fmt: skip


def _draw_idle(readings: Readings) -> Drawn | NotDrawn:
    drawn = draw_bars([(group, _idle(readings, group)) for group in readings.groups], "ratio")
    if drawn is None:
        reasons = dict.fromkeys(
            plain(one.reason)
            for run in readings.runs
            for one in run.report.missing
            if one.what in (_IDLE, "core_load")
        )
        lacking = "; ".join(reasons) or "the load of single cores was not sampled"
        return NotDrawn(reason=lacking, command="wattstep run NAME --seconds 10")
    panels, rows, key = drawn
    text = f"{label()}: a Denver2 core, up to {published(5)[0].text}"
    texts = {"run": "Runs", "batch": "Batch", "core": "Core", "kind": "Kind"}
    remark = "A core is idle in a window of samples in which it does next to nothing."
    return Drawn(
        panels=panels, table=table(rows, texts, {"idle": "Idle state ratio"}),
        sentences=[remark, *filter(None, (_kinds(readings, group) for group in readings.groups))],
        key=[*key, KeyEntry(mark="╌", color="--ink", label=text)],
    )  # fmt: skip


def _kinds(readings: Readings, group: Group) -> str:
    """Cores by kind, in a sentence, or "" where there is one kind."""
    by_kind: dict[str, list[str]] = {}
    for core, kind in sorted(readings.of(group.runs[0]).kinds.items()):
        by_kind.setdefault(kind, []).append(str(core))
    words = "; ".join(f"{plain(kind)}: {', '.join(cores)}" for kind, cores in by_kind.items())
    return f"{plain(group.label)}, cores by kind: {words}." if words else ""


# --- 6 and 7: energy and power of the parts -----------------------------------------------------------

_PARTS_MISSING = "no rails tell GPU, CPU and memory apart, so that the whole alone is drawn"
_PARTS = {
    "gpu": "GPU", "cpu": "CPU", "memory": "Memory", "soc": "Rest of the chip", "wifi": "Wi-Fi",
    "system": "Other rails", "whole": "Whole",
}  # fmt: skip
_WHOLE = _PARTS["whole"]
_COLORS = {
    "gpu": "--series-1", "cpu": "--series-2", "memory": "--series-3", "soc": "--series-4",
    "whole": "--other",
}  # fmt: skip


def _parts_of(group: Group) -> list[str]:
    """The parts that some run tells apart, those of the paper first: "energy.gpu", ..."""
    parts = [name for name in names_of(group, "energy") if name != WHOLE]
    return sorted(parts, key=lambda name: _rank(name.partition(".")[2]))


def _rank(part: str) -> int:
    """Its place: GPU, CPU and memory first, the whole last."""
    order = list(_PARTS)
    return order.index(part) if part in order else order.index("whole") - 1


def _part(name: str) -> str:
    """ "energy.gpu" as "GPU"; what has no name keeps its own."""
    part = name.partition(".")[2]
    return _PARTS.get(part, plain(part))


def _color(name: str) -> str:
    return _COLORS.get(name.partition(".")[2], "--series-6")


def _energy(group: Group) -> Bars:
    """Bars of each part side by side at each batch size."""
    names = [*_parts_of(group), WHOLE]
    places = [f"batch {batch:,}" for batch in group.known]
    return Bars(
        places=places,
        series=[
            [
                (_part(name), place, pooled(group, name, batch, "J"), _color(name))
                for place, batch in zip(places, group.known, strict=True)
            ]
            for name in names
        ],
        key=[KeyEntry(mark="■", color=_color(name), label=_part(name)) for name in names],
    )  # fmt: skip


def _with_energy(group: Group) -> Group:
    """At batch sizes at which the energy of a step is known."""
    known = {
        batch: runs
        for batch, runs in group.known.items()
        if not pooled(group, WHOLE, batch, "J").missing
    }
    return replace(group, batches=known)


def _draw_energy(readings: Readings) -> Drawn | NotDrawn:
    groups = [group for each in readings.groups if len((group := _with_energy(each)).batches) > 1]
    drawn = draw_bars([(group, _energy(group)) for group in groups], "J")
    if drawn is None:
        reason = "needs runs of one workload at two batch sizes or more, with their energy"
        figures = [run.observed.figure("energy_per_step", "J") for run in readings.runs]
        if figures and all(figure.missing for figure in figures):
            lacking = "; ".join(_missing(readings, "energy_per_step", "J"))
            reason = f"the energy of a step is not known: {lacking}"
        return NotDrawn(reason=reason, command=SWEEP)
    panels, _, key = drawn
    names = dict.fromkeys(name for group in groups for name in [*_parts_of(group), WHOLE])
    return Drawn(
        panels=panels, key=key,
        table=batch_table(batch_rows(groups, dict.fromkeys(names, "J")), {n: _part(n) for n in names}),
        sentences=[
            *growth(groups, WHOLE, "J", "the energy of a step"),
            *_together(_PARTS_MISSING, [group for group in groups if not _parts_of(group)]),
            *_together(COMPUTED, [group for group in groups if computed_power(group.runs)]),
            *_together(NOT_FOLLOWING, [group for group in groups if replayed(group.runs)]),
        ],
    )  # fmt: skip


def _powers(reading: Reading) -> list[Curve]:
    channels = reading.three_steps.channels
    whole = [Curve(channel=one, panel=_WHOLE) for one in channels if one.role == POWER_ROLE]
    rails = sorted((c for c in channels if c.role == RAIL), key=lambda c: _rank(c.domain))
    parts = (_PARTS.get(rail.domain, plain(rail.domain)) for rail in rails)
    return [
        *(Curve(channel=rail, panel=part) for rail, part in zip(rails, parts, strict=True)),
        *whole,
    ]


def _power_row(run: Chosen, curve: Curve) -> dict[str, Any]:
    return {"part": curve.panel, "rail": curve.channel.name, **summary(curve.channel)}


def _without_parts(runs: Sequence[Chosen]) -> list[str]:
    lacking = [run.label for run in runs if all(c.panel == _WHOLE for c in run.channels)]
    return [f"{plain('; '.join(lacking))}: {_PARTS_MISSING}."] if lacking else []


def _no_power(readings: Readings) -> str:
    reasons = _missing(readings, "mean_power", "W")
    if reasons:
        return f"power was not sampled: {'; '.join(reasons)}"
    return "no run has three steps with sampled power"


# --- 9: memory ----------------------------------------------------------------------------------------

_MEMORY: Final[Mapping[str, str]] = {
    "memory.intermediate": "Intermediate data",
    "memory.parameters": "Parameters",
    "memory.gradients": "Gradients",
    "memory.optimizer_state": "Optimizer state",
    "memory.input": "Input",
    "peak_memory": "Peak of the process",
    "device_peak_memory": "Peak of the GPU",
}


ON_DEVICE = (
    "Categories are of the GPU's own memory, at its peak, as far as they are known: intermediate data "
    "are activations and the space that kernels take. What the process takes of the host's memory "
    "stands beside them."
)


def _of_memory(readings: Readings, groups: Sequence[Group]) -> list[str]:
    followed = [group for group in groups if any(names_of(group, "memory"))]
    remarks = [
        "Intermediate data are feature maps and workspace. Each category stands at its own highest "
        "within a step, not all at one moment: they do not add up to the peak of the process, which "
        "holds the interpreter and the framework as well."
    ]
    if any("device_peak_memory" in run.metrics for group in groups for run in group.runs):
        remarks[0] = ON_DEVICE
    if len(followed) < len(groups):
        which = "" if not followed else " of some runs"
        remarks = [*remarks] * bool(followed) + [
            f"{NOT_FOLLOWED[:1].upper()}{NOT_FOLLOWED[1:]}{which}."
        ]
    return remarks


# --- 10: days -----------------------------------------------------------------------------------------


def _draw_days(readings: Readings) -> Drawn | NotDrawn:
    """A chart for each daily training, a line for each batch size."""
    if not readings.daily:
        return NotDrawn(
            reason="needs a daily training: its folder among those of the report",
            command="wattstep daily NAME, then wattstep report daily/NAME RUN...",
        )
    panels = [
        Panel(
            title=daily_tables.heading(daily), chart=accuracy_chart(daily), statuses=("measured",)
        )
        for daily in readings.daily
    ]
    facts = dict.fromkeys(line for daily in readings.daily for line in daily_tables.facts(daily))
    texts = {"run": "Training", "batch": "Batch", "day": "Day"}
    rows = [row for daily in readings.daily for row in _day_rows(daily)]
    return Drawn(
        panels=panels,
        sentences=[f"{line[:1].upper()}{line[1:]}." for line in facts],
        table=table(rows, texts, dict(daily_tables.COLUMNS)),
    )


def _day_rows(daily: DailyReport) -> list[dict[str, Any]]:
    return [
        {
            "run": daily.title,
            "batch": str(batch.batch_size),
            "day": str(day.day),
            **day.figures,
        }
        for batch in daily.batches
        for day in batch.days
    ]


FIGURES: Final[Mapping[int, PaperFigure]] = MappingProxyType(
    {
        3: PaperFigure(
            title="Utilization of each core and the GPU over three steps",
            draw=draw_steps(
                _loads, _load_row, {"part": "Processor"}, _without_loads,
                {**SUMMARY, "whole": "Over all counted steps"},
                lambda readings: "no run has three steps with a sampled load of its cores or of a GPU",
                "wattstep run NAME --seconds 10",
            ),
        ),
        4: PaperFigure(
            title="CPU and GPU utilization by batch size",
            draw=draw_lines(4, _UTILIZATION, "ratio", _changes),
        ),
        5: PaperFigure(title="Idle state ratio of each core", draw=_draw_idle),
        6: PaperFigure(
            title="Energy of a step by batch size, by GPU, CPU and memory", draw=_draw_energy
        ),
        7: PaperFigure(
            title="Power over three steps",
            draw=draw_steps(
                _powers, _power_row, {"part": "Part", "rail": "Channel"}, _without_parts, SUMMARY,
                _no_power, "wattstep run NAME --target emulate:jetson-tx2",
            ),
        ),
        8: PaperFigure(
            title="Throughput by batch size",
            draw=draw_lines(
                8, {"throughput": "Throughput"}, "samples/s",
                lambda _, groups: growth(groups, "throughput", "samples/s", "throughput"),
                {"throughput": "Samples trained in a second"},
            ),
        ),
        9: PaperFigure(
            title="Memory by category and batch size",
            draw=draw_lines(9, _MEMORY, "B", _of_memory, together=True),
        ),
        10: PaperFigure(title="Accuracy by day", draw=_draw_days),
    }
)  # fmt: skip
