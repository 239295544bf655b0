"""Run as a process of a configuration, with the figures that comparisons need and what mars them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from wattstep.insight.compare.configuration import configuration_of
from wattstep.insight.compare.drift import Canary, canary_of
from wattstep.run import load
from wattstep.schema.configuration import Configuration
from wattstep.schema.figure import Figure, missing
from wattstep.schema.metrics import COMPARED, METRICS, OWN
from wattstep.schema.report_rows import CostRow, RecordFacts
from wattstep.schema.run_report import RunFacts, RunReport

SOME_HAVE = (*OWN, "device_peak_memory")  # compared where a run says anything of them
UNITS = {name: METRICS[name].unit for name in COMPARED}
ENERGY = tuple(name for name, unit in UNITS.items() if unit in ("J", "W"))
# Of these, steps of other sizes tell nothing.
A_STEP = tuple(name for name in COMPARED if METRICS[name].of == "step")


@dataclass(frozen=True, kw_only=True, eq=False)
class Process:
    """A run.

    Attributes:
        path: Its folder.
        info: Its own description.
        configuration: Its configuration.
        figures: By the names of `UNITS`; those in `OWN` where the run has them.
        samples: Of a step; None: not known, or not the same in all steps.
        sensors: Sensors of its energy, to be compared with other runs'; "" without energy.
        rounding: Relative error of its energy that comes from steps of the sensor: it stays where
            two runs share a sensor.
        temperature: Mean of the hottest sensor while it trained in °C, or None.
        canary: Of the machine before and after, or None.
        operations: Rows of a mean step; empty where `no_operations` says why.
        no_operations: Why there are none, or None.
        data_movement: The metric `data_movement_share`.
        marred: Share of the steps that count that were "throttled", "disturbed".
        warnings: Further warnings about it, in words.
    """

    path: Path
    info: RunFacts
    configuration: Configuration
    figures: Mapping[str, Figure]
    samples: float | None
    sensors: str
    rounding: float
    temperature: float | None
    canary: Canary | None
    operations: Sequence[CostRow]
    no_operations: str | None
    data_movement: Figure
    marred: Mapping[str, float]
    warnings: tuple[str, ...]

    def figure(self, name: str) -> Figure:
        """Figure of one of `UNITS`; missing where runs of this kind have none."""
        metric = self.figures.get(name)
        return missing(UNITS[name], "the run has none") if metric is None else metric


def read_process(path: Path, *, operations: bool) -> Process:
    """Opens a run and works out what comparisons need.

    Args:
        path: Its folder.
        operations: True if those are needed, too.

    Raises:
        DamagedRunError: It is no run or cannot be read.
    """
    return process_of(load(path).headline_report(operations=operations))


def process_of(report: RunReport) -> Process:
    """A run, recorded or not, as comparisons see it; its headline is all they need."""
    metrics, record = report.metrics, report.record or RecordFacts()
    rows, no_operations = _operations(report)
    watts = abs(metrics.value("mean_power") or 0.0)
    return Process(
        path=Path(report.run),
        info=report,
        configuration=configuration_of(report),
        figures={
            name: metrics.figure(name) or missing(unit, "not known")
            for name, unit in UNITS.items()
            if name in metrics or name not in SOME_HAVE
        },
        samples=record.samples if report.record else _samples(report),
        sensors=record.sensors,
        rounding=record.half_step_w / watts if watts else 0.0,
        temperature=_hottest(metrics.parts("temperature")),
        canary=canary_of(record.canary),
        operations=rows,
        no_operations=no_operations,
        data_movement=metrics.figure("data_movement_share")
        or missing("ratio", no_operations or "the run does not tell it"),
        marred=record.marred or dict.fromkeys(("throttled", "disturbed"), 0.0),
        warnings=tuple(_warnings(report.state, record)),
    )


def _operations(report: RunReport) -> tuple[Sequence[CostRow], str | None]:
    """Rows of a mean step, or why there are none."""
    for one in report.missing:
        if one.what == "operations":
            return (), one.reason
    if report.operations_of == "recording":
        return (), "the trace marks no steps: times are of the whole recording"
    return report.operations, None if report.operations else "none are told"


def _samples(report: RunReport) -> float | None:
    """Samples of a step that was never recorded."""
    times = report.options.get("accumulate") or 1
    return None if report.batch_size is None else float(report.batch_size * times)


def _hottest(temperatures: Mapping[str, Figure]) -> float | None:
    known = [figure.value for figure in temperatures.values() if figure.value is not None]
    return max(known, default=None)


def _warnings(state: str, record: RecordFacts) -> list[str]:
    notes = []
    if state == "recording":
        notes.append("is still being recorded")
    if state == "recovered":
        notes.append("was never closed: it was recovered from its journals")
    if record.gaps:
        seconds = sum(until - since for since, until in record.gaps) * 1e-9
        notes.append(f"has {len(record.gaps)} gaps in its samples, {seconds:.1f} s")
    return notes + [f"lost its {part} before its end" for part in record.lost]
