"""The tables of an export for spreadsheets and data frames: what stands in which column."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Final

from wattstep.attribution.tables.figure_columns import FIGURE

# By table: what it holds.
TABLES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "steps": "one row a step",
        "marks": "one row a mark of a phase or layer within a step",
        "spans": "one row a tracing window, or a rest with a name between steps",
        "operations": "one row an operation instance of the traced steps",
        "samples": "one row a sample of a channel; a failed read is a row without a value",
        "thinned": "one row a stretch of a channel that stands for samples which were thinned (--keep)",
        "thinned_steps": "one row a stretch of steps that stands for single ones which were thinned (--keep)",
        "memory": "one row a value of a category of memory",
        "evaluations": "one row an evaluation of the model",
        "summaries": "one row an operation's totals, of imported files that keep no instances",
        "channels": "one row a channel: what it is, and what its values are",
        "metrics": "one row a figure of the run, or a part of one",
        "operation_table": "one row an operation of a mean clean step",
        "layer_table": "one row a layer of a mean clean step",
        "phase_table": "one row a phase of a mean clean step",
        "kind_table": "one row a kind of operation of a mean clean step",
        "rest_table": "one row a rest: what no operation covers",
        "missing": "one row a thing that could not be measured, with the reason",
    }
)
# By column: unit ("" for none, or where another column tells it) and meaning.
COLUMNS: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "index": ("", "number of the step; of several the first"),
        "start_ns": ("ns", "begin, on the run's clock"),
        "end_ns": ("ns", "end, on the run's clock"),
        "cpu_start_ns": ("ns", "CPU clock of the training at the begin"),
        "cpu_end_ns": ("ns", "CPU clock of the training at the end"),
        "loss": ("", "loss of the step, where it was reported"),
        "warmup": ("", "whether it is left out of figures as warm-up"),
        "traced": ("", "whether it was traced"),
        "waited_ns": ("ns", "how long a thread waited for a core, of traced steps"),
        "host_start_ns": ("ns", "when the host began the step, where a device runs behind it"),
        "host_end_ns": ("ns", "when the host had asked for all of it, likewise"),
        "throttled": ("", "whether the device throttled meanwhile; empty where unknown"),
        "disturbed": ("", "whether something beside it ran; empty where unknown"),
        "step": ("", "number of the step; of an evaluation how many were done"),
        "t_ns": ("ns", "time, on the run's clock"),
        "kind": ("", "of an operation, mark, span or channel"),
        "name": ("", "of an operation, span or channel; a mark's phase or layer"),
        "layer": ("", "layer of the model"),
        "phase": ("", "phase of the step"),
        "window": ("", "number of the traced step, counted from 0"),
        "thread": ("", "thread, or stream of a GPU"),
        "processor": ("", "cpu, gpu0, ..."),
        "self_ns": ("ns", "time of it less that of what it encloses directly"),
        "shapes": ("", "shapes of the inputs"),
        "flops": ("FLOP", "arithmetic, a multiply-add counted as two"),
        "bytes": ("B", "bytes moved; in memory: of the category"),
        "allocated": ("B", "allocated less freed"),
        "outermost": ("", "whether no other operation encloses it"),
        "parent": ("", "what encloses it, as a position within its window"),
        "launch": ("", "what asked a GPU for it, as a position within its window"),
        "channel": ("", "name of the channel"),
        "unit": ("", "unit of the value"),
        "value": ("", "the value, in the unit beside it; empty where there is none"),
        "errno": ("", "error number of a failed read; 0 for none"),
        "reason": ("", "why there is no value"),
        "begin_ns": ("ns", "first read, or begin of the first step, on the run's clock"),
        "reads": ("", "how many samples it stands for, beside those that are rows of samples"),
        "first": ("", "first value, in the unit beside it"),
        "last": ("", "last value, likewise"),
        "least": ("", "lowest value, likewise"),
        "most": ("", "highest value, likewise"),
        "sum": ("", "sum of the values that it stands for, likewise"),
        "integral": ("", "of the value over the time, in the unit beside it times s"),
        "steps": ("", "how many steps it stands for, numbered on from its index"),
        "marks": ("", "marks of phases and layers that lay within these steps"),
        "sum_ns": ("ns", "sum of the times of these steps"),
        "least_ns": ("ns", "time of the shortest of them"),
        "most_ns": ("ns", "time of the longest"),
        "squares": ("s²", "sum of the squares of their times"),
        "samples_least": ("", "samples of the one with fewest"),
        "samples_most": ("", "samples of the one with most"),
        "losses": ("", "how many of them have a loss: all or none"),
        "loss_sum": ("", "sum of their losses"),
        "loss_last": ("", "loss of the last of them"),
        "category": ("", "category of memory"),
        "measure": ("", "what was evaluated, as accuracy"),
        "calls": ("", "how often it was called"),
        "domain": ("", "part of the device"),
        "role": ("", "what it is used for"),
        "core": ("", "the core that it belongs to"),
        "source": ("", "where it was read, or what the figure rests on"),
        "status": ("", "measured, replayed, modelled, ...; missing where there is no value"),
        "resolution": ("", "smallest documented step of the source, in the channel's unit"),
        "window_s": ("s", "time that the source averages over, where documented"),
        "limit": ("", "where throttling begins, or the highest that it can be"),
        "note": ("", "what a reader must know"),
        "samples": ("", "of a step: samples it trained on; of a channel: samples with a value"),
        "failed_reads": ("", "samples without a value"),
        "metric": ("", "name of the figure, as in --json"),
        "part": ("", "core, category or rail that it is of; empty: the whole"),
        "low": ("", "lower end of the statistical interval, in the unit beside it"),
        "high": ("", "upper end of the statistical interval, in the unit beside it"),
        "confidence": ("ratio", "coverage of the interval"),
        "n": ("", "observations that the figure rests on"),
        "method": ("", "how it was computed"),
        "systematic": ("ratio", "relative error of the sensor"),
        "rest": ("", "name of the rest"),
        "what": ("", "sensor or figure"),
        "total_s": ("s", "of all calls"),
        "mean_s": ("s", "of a call"),
        "median_s": ("s", "of a call"),
        "least_s": ("s", "the shortest call"),
        "most_s": ("s", "the longest call"),
        "deviation_s": ("s", "standard deviation of a call"),
    }
)
# Of the tables of figures: each has seven columns, see `FIGURE`.
FIGURES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "calls": "how often a step calls it",
        "time": "share of wall time, where several run at once",
        "busy_time": "each counted in full",
        "share": "of the step's time",
        "energy": "per step",
        "energy_by_rail": "per step, of one power rail",
        "power": "energy over time",
        "cpu_utilization": "of all cores",
        "memory": "allocated less freed",
        "flops": "per step",
        "bytes": "per step",
        "total": "of all stretches of a rest outside of steps",
    }
)


def unit_of(column: str, beside: Collection[str]) -> str:
    """Unit of a column; "" where it has none, or another column beside it tells it."""
    return "" if f"{column}_unit" in beside else COLUMNS.get(column, ("", ""))[0]


def headed(column: str, beside: Collection[str]) -> str:
    """A column's head with its unit: "flops [FLOP]"; where the name ends with it, the name."""
    unit = unit_of(column, beside)
    return column if not unit or column.endswith(f"_{unit}") else f"{column} [{unit}]"


def meaning_of(column: str, beside: Collection[str]) -> str:
    """Meaning of a column; of a figure's columns, which part of it."""
    for suffix in FIGURE[::-1]:  # the value itself has no suffix, and comes last
        figure = column.removesuffix(suffix)
        if f"{figure}_unit" in beside and (figure != column or not suffix):
            known = FIGURES.get(figure.partition(".")[0], "a figure")
            return f"{suffix[1:] or 'value'} of {figure}: {known}"
    return COLUMNS.get(column, ("", ""))[1]
