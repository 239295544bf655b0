"""The tables that a query sees: names, columns, types, units and meaning, from which the documents are made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

import pyarrow as pa

Origin = Literal["runs", "files", "figures"]
_ARROW: Final[Mapping[str, pa.DataType]] = MappingProxyType(
    {
        "VARCHAR": pa.string(),
        "BIGINT": pa.int64(),
        "INTEGER": pa.int32(),
        "SMALLINT": pa.int16(),
        "TINYINT": pa.int8(),
        "DOUBLE": pa.float64(),
        "BOOLEAN": pa.bool_(),
        "TIMESTAMP": pa.timestamp("us"),
    }
)


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column of a table.

    Attributes:
        name: In SQL.
        type: In SQL.
        meaning: In words.
        unit: SI unit; "" where it has none, "its own" where another column of the row tells it.
        coded: True if the file keeps each text once and a number in each row.
    """

    name: str
    type: str
    meaning: str
    unit: str = ""
    coded: bool = False

    @property
    def arrow(self) -> pa.DataType:
        """Type in Arrow."""
        if self.type.endswith("[]"):
            return pa.list_(_ARROW[self.type.removesuffix("[]")])
        return pa.dictionary(pa.int32(), pa.string()) if self.coded else _ARROW[self.type]


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table.

    Attributes:
        name: In SQL.
        meaning: Meaning of a row.
        columns: In order; the first is always the run.
        origin: "runs": what `run.json` says; "files": the Parquet file of that name in each run;
            "figures": what wattstep works out of a run, as reports show it.
    """

    name: str
    meaning: str
    columns: tuple[Column, ...]
    origin: Origin

    @property
    def schema(self) -> pa.Schema:
        """In Arrow."""
        return pa.schema([(column.name, column.arrow) for column in self.columns])


def _columns(*rows: tuple[str, ...]) -> tuple[Column, ...]:
    """From name, type, meaning and, where there is one, the unit; "coded VARCHAR" is coded."""
    return tuple(
        Column(
            name=name, type=kind.removeprefix("coded "), meaning=meaning,
            unit=unit[0] if unit else "", coded=kind.startswith("coded "),
        )
        for name, kind, meaning, *unit in (_RUN, *rows)
    )  # fmt: skip


_RUN = (
    "run", "VARCHAR",
    "which run: its path below the folder that was given; as given, where two would be the same",
)  # fmt: skip
_FIGURE = (
    ("value", "DOUBLE", "the number; NULL where it is missing, which is not 0", "its own"),
    ("unit", "VARCHAR", "SI unit of value, low and high"),
    ("low", "DOUBLE", "lower end of the interval", "its own"),
    ("high", "DOUBLE", "upper end of the interval", "its own"),
    ("confidence", "DOUBLE", "how often such intervals hold the truth"),
    ("n", "BIGINT", "observations that it rests on"),
    ("method", "VARCHAR", "how value and interval were made"),
    ("systematic", "DOUBLE", "relative error of the sensor, beside the interval"),
    ("status", "VARCHAR", "counted, measured, attributed, replayed, modelled, predicted or missing"),
    ("source", "VARCHAR", "sensor, clock or model"),
    ("reason", "VARCHAR", "why it is missing, or what its reader must know"),
)  # fmt: skip
_QUANTITY = (
    "quantity", "VARCHAR",
    "calls, time, busy_time, share, energy, power, cpu_utilization, memory, flops, bytes, "
    "energy_by_rail.NAME, ...",
)  # fmt: skip
_OF_CHANNEL = (
    ("unit", "VARCHAR", "SI unit of its values"),
    ("kind", "VARCHAR", "gauge (the value at an instant) or counter (differences count)"),
    ("domain", "VARCHAR", "cpu, gpu, memory, soc, system, process, battery, thermal, sampler"),
    ("role", "VARCHAR", "what it is used for: busy_time, power_total, energy_part, temperature, ..."),
    ("core", "INTEGER", "the core that it belongs to"),
    ("status", "VARCHAR", "measured, replayed or modelled"),
)  # fmt: skip


def _figures(name: str, meaning: str, *keys: tuple[str, ...]) -> Table:
    return Table(
        name=name, meaning=meaning, origin="figures", columns=_columns(*keys, _QUANTITY, *_FIGURE)
    )


TABLES: Final[tuple[Table, ...]] = (
    Table(
        name="runs", origin="runs",
        meaning="a run, damaged ones and those that still record included",
        columns=_columns(
            ("path", "VARCHAR", "its folder"),
            ("state", "VARCHAR", "closed, recovered (from journals), recording or damaged"),
            ("problem", "VARCHAR", "why its other tables are empty; NULL: they are not"),
            ("created", "TIMESTAMP", "when it began", "UTC"),
            ("workload", "VARCHAR", "name of the workload, or of the script"),
            ("title", "VARCHAR", "the workload in words"),
            ("engine", "VARCHAR", "framework and version"),
            ("batch_size", "BIGINT", "samples of a step", "samples"),
            ("threads", "BIGINT", "threads that computed"),
            ("precision", "VARCHAR", "fp32, bf16 or amp"),
            ("processor", "VARCHAR", "cpu, cuda, ..."),
            ("device", "VARCHAR", "model of the machine"),
            ("cpu", "VARCHAR", "its processor"),
            ("cores", "BIGINT", "its cores"),
            ("memory", "BIGINT", "its memory", "B"),
            ("target", "VARCHAR", "where the sensors were: local, emulate:..., ssh:..., imported"),
            ("seed", "BIGINT", "of the training"),
            ("parameters", "BIGINT", "of the model"),
            ("data", "VARCHAR", "name of the data"),
            ("stand_in", "BOOLEAN", "whether the data stand for others"),
            ("interval", "DOUBLE", "period of the sampler", "s"),
            ("warmup", "BIGINT", "first steps that do not count"),
            ("power_model", "VARCHAR", "name of the model of power that was asked for"),
            ("imported", "BOOLEAN", "whether other tools recorded it"),
        ),
    ),
    Table(
        name="damaged", origin="runs", meaning="a run that is in no other table but `runs`",
        columns=_columns(("reason", "VARCHAR", "why")),
    ),
    Table(
        name="metrics", origin="figures", meaning="a figure of a run as a whole",
        columns=_columns(
            ("metric", "VARCHAR", "step_time, throughput, energy_per_step, peak_memory, ..."),
            ("key", "VARCHAR", "which of several: number of the core, category; NULL: the only one"),
            *_FIGURE,
        ),
    ),
    _figures(
        "operation_table", "a quantity of an operation, of a mean clean step",
        ("name", "VARCHAR", "of the operation"), ("kind", "VARCHAR", "convolution, matrix, ..."),
        ("layer", "VARCHAR", "layer that it belongs to"), ("phase", "VARCHAR", "forward, ..."),
    ),
    _figures("layers", "a quantity of a layer, likewise", ("layer", "VARCHAR", "its name")),
    _figures("phases", "a quantity of a phase, likewise", ("phase", "VARCHAR", "its name")),
    _figures(
        "rests", "a quantity of what no operation covers; with the operations it makes the step",
        ("rest", "VARCHAR", "its name"),
    ),
    _figures(
        "rests_outside_steps", "total (time) or energy of all that ran beside the steps by one name",
        ("rest", "VARCHAR", "startup, evaluation, ..."),
    ),
    Table(
        name="steps", origin="files",
        meaning="a step of training; beside `thinned_steps`, where old ones were not kept (--keep)",
        columns=_columns(
            ("index", "BIGINT", "its number, from 0"),
            ("start_ns", "BIGINT", "begin, on the monotonic clock of the run", "ns"),
            ("end_ns", "BIGINT", "end", "ns"),
            ("cpu_start_ns", "BIGINT", "CPU time of the process at the begin", "ns"),
            ("cpu_end_ns", "BIGINT", "CPU time of the process at the end", "ns"),
            ("samples", "DOUBLE", "samples that it took; NaN: not known", "samples"),
            ("loss", "DOUBLE", "its loss; NaN: not told"),
            ("warmup", "BOOLEAN", "whether it is one of the first, which do not count"),
            ("traced", "BOOLEAN", "whether it was traced, which takes time"),
            ("mark_ns", "BIGINT[]", "when phases and layers in it began and ended", "ns"),
            ("mark_kind", "TINYINT[]", "3: a phase begins, 4: a layer begins, 5: a layer ends, 15: an update was made"),
            ("mark_name", "VARCHAR[]", "which"),
        ),
    ),
    Table(
        name="operations", origin="files", meaning="one call of an operation, in a traced step",
        columns=_columns(
            ("name", "coded VARCHAR", "of the operation"),
            ("kind", "coded VARCHAR", "convolution, matrix, ..."),
            ("layer", "coded VARCHAR", "layer that it belongs to"),
            ("phase", "coded VARCHAR", "forward, backward, optimizer, ..."),
            ("step", "BIGINT", "`index` of the step"),
            ("window", "INTEGER", "number of the tracing window"),
            ("thread", "BIGINT", "number of the thread"),
            ("processor", "coded VARCHAR", "cpu, cuda, ..."),
            ("start_ns", "BIGINT", "begin, on the clock of the steps", "ns"),
            ("end_ns", "BIGINT", "end", "ns"),
            ("self_ns", "BIGINT", "what no operation within it takes", "ns"),
            ("shapes", "coded VARCHAR", "of its inputs"),
            ("flops", "BIGINT", "additions and multiplications", "FLOP"),
            ("bytes", "BIGINT", "that it reads", "B"),
            ("allocated", "BIGINT", "allocated less freed", "B"),
            ("outermost", "BOOLEAN", "whether no operation of the framework is around it"),
            ("parent", "INTEGER", "position in its window of the one around it; NULL: none"),
            ("launch", "INTEGER", "of work on a GPU: position of what asked for it"),
        ),
    ),
    Table(
        name="samples", origin="files", meaning="a read of a channel, with what the channel is",
        columns=_columns(
            ("t_ns", "BIGINT", "when, on the clock of the steps", "ns"),
            ("channel", "coded VARCHAR", "which"),
            ("value", "DOUBLE", "what was read; NULL: the read failed", "its own"),
            ("errno", "SMALLINT", "error number of a failed read, else 0"),
            *_OF_CHANNEL,
        ),
    ),
    Table(
        name="thinned_steps", origin="files",
        meaning="what stands for steps of which single ones were not kept (--keep)",
        columns=_columns(
            ("begin_ns", "BIGINT", "begin of the first, on the clock of the steps", "ns"),
            ("end_ns", "BIGINT", "end of the last", "ns"),
            ("index", "BIGINT", "number of the first; they are numbered on from there"),
            ("steps", "BIGINT", "how many"),
            ("marks", "BIGINT", "marks of phases and layers that lay within them"),
            ("sum_ns", "BIGINT", "of their times", "ns"),
            ("least_ns", "BIGINT", "time of the shortest", "ns"),
            ("most_ns", "BIGINT", "time of the longest", "ns"),
            ("squares", "DOUBLE", "sum of the squares of their times", "s²"),
            ("samples", "DOUBLE", "of all of them; NULL: not known", "samples"),
            ("samples_least", "DOUBLE", "of the one with fewest", "samples"),
            ("samples_most", "DOUBLE", "of the one with most", "samples"),
            ("losses", "BIGINT", "how many have a loss: all or none"),
            ("loss_sum", "DOUBLE", "sum of the losses"),
            ("loss_last", "DOUBLE", "loss of the last; NULL: not told"),
        ),
    ),
    Table(
        name="thinned", origin="files",
        meaning="what stands for samples of a channel of which single ones were not kept (--keep)",
        columns=_columns(
            ("begin_ns", "BIGINT", "first read, on the clock of the steps", "ns"),
            ("end_ns", "BIGINT", "last read", "ns"),
            ("channel", "coded VARCHAR", "which"),
            ("reads", "BIGINT", "how many, beside those that are samples"),
            ("errno", "SMALLINT", "error number of all of them where they failed, else 0"),
            ("first", "DOUBLE", "first value; NULL: the reads failed", "its own"),
            ("last", "DOUBLE", "last value", "its own"),
            ("least", "DOUBLE", "lowest value", "its own"),
            ("most", "DOUBLE", "highest value", "its own"),
            ("sum", "DOUBLE", "of the values of these reads", "its own"),
            ("integral", "DOUBLE", "of the value over the time", "its own times s"),
        ),
    ),
    Table(
        name="channels", origin="runs", meaning="something that was sampled",
        columns=_columns(
            ("channel", "VARCHAR", "its name"),
            *_OF_CHANNEL,
            ("source", "VARCHAR", "where it was read"),
            ("sensor", "VARCHAR", "the sensor that it belongs to"),
            ("resolution", "DOUBLE", "smallest step of the source, where documented", "its own"),
            ("window", "DOUBLE", "time that the source averages over, where documented", "s"),
            ("most", "DOUBLE", "where throttling begins, or the highest it can be", "its own"),
            ("note", "VARCHAR", "what a reader of its figures must know"),
        ),
    ),
    Table(
        name="memory", origin="files", meaning="memory by category as the training reported it",
        columns=_columns(
            ("t_ns", "BIGINT", "when", "ns"),
            ("category", "VARCHAR", "parameters, gradients, peaks of resident memory, ..."),
            ("bytes", "BIGINT", "how much", "B"),
        ),
    ),
    Table(
        name="evaluations", origin="files", meaning="what the model was worth at a time",
        columns=_columns(
            ("t_ns", "BIGINT", "when", "ns"),
            ("step", "BIGINT", "steps that were done"),
            ("measure", "VARCHAR", "accuracy, loss, ..."),
            ("value", "DOUBLE", "what it came to"),
        ),
    ),
    Table(
        name="spans", origin="files", meaning="a stretch of time beside the steps",
        columns=_columns(
            ("start_ns", "BIGINT", "begin", "ns"),
            ("end_ns", "BIGINT", "end", "ns"),
            ("kind", "VARCHAR", "window (of tracing) or rest"),
            ("name", "VARCHAR", "which rest: evaluation, idle_before, ..."),
        ),
    ),
    Table(
        name="summaries", origin="files",
        meaning="all calls of an operation together, of imported tools that keep no calls",
        columns=_columns(
            ("name", "VARCHAR", "of the operation"),
            ("kind", "VARCHAR", "convolution, matrix, ..."),
            ("processor", "VARCHAR", "cpu, cuda, ..."),
            ("calls", "BIGINT", "how many"),
            ("total_s", "DOUBLE", "of all calls", "s"),
            ("mean_s", "DOUBLE", "of a call", "s"),
            ("median_s", "DOUBLE", "of a call", "s"),
            ("least_s", "DOUBLE", "shortest call", "s"),
            ("most_s", "DOUBLE", "longest call", "s"),
            ("deviation_s", "DOUBLE", "standard deviation of calls", "s"),
        ),
    ),
)  # fmt: skip
BY_NAME: Final[Mapping[str, Table]] = MappingProxyType({table.name: table for table in TABLES})
