"""Report of a run: the one object that terminal, pages, exports, queries and comparisons take.

A run that was recorded makes it (`Run.report`); so does whatever predicts, simulates or replays one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Final, TypeAlias

from wattstep.errors import DamagedRunError
from wattstep.schema.condition_documents import ForecastFacts
from wattstep.schema.failures import Failure
from wattstep.schema.figure import Figure
from wattstep.schema.figures import Figures, Metrics
from wattstep.schema.report_rows import (
    JSON,
    CostRow,
    Course,
    EnergyGroup,
    Evaluation,
    NotMeasured,
    OutsideSteps,
    PlanCompared,
    RecordFacts,
    RunConditions,
    SampledChannel,
    StepCounts,
    StepKind,
    known,
)
from wattstep.schema.run_documents import (
    DeviceFacts,
    ImportedFiles,
    ModelFacts,
    PowerModelFacts,
    ScheduleFacts,
    TrainingOptions,
)
from wattstep.schema.run_info import RunInfo
from wattstep.schema.workload import DataFacts


@dataclass(frozen=True, kw_only=True)
class RunReport:
    """A run: what ran, its figures, and what is not known. Fields stand in the order of the JSON.

    Attributes:
        run: Its folder, or what else names it.
        schema: Version of the record.
        state: "closed", "recovered", "recording"; "" of one that was never recorded.
        created: ISO 8601, or "".
        notes: What a reader must know first.
        workload: Name of the workload or the script.
        title: In words.
        engine: Framework and version.
        batch_size: Samples of one forward pass; None: not known, like the four that follow.
        threads: That computed.
        precision: "fp32", "bf16" or "amp".
        processor: "cpu", "cuda", ...
        seed: Of the training.
        device: The machine: model, cpu, cores, memory (B), clusters, ...
        target: Where the sensors were: "local", "replay:...", "emulate:...".
        power_model: That stood in for a sensor of power, or None.
        imported: Files of other tools that it was made of.
        figures_of: What figures are of: "clean steps", "traced steps" or "recording".
        operations_of: What times of operations are of: a mean "step" or the "recording".
        data: Which data were trained on; None: not known.
        model: Facts of the network.
        options: Of the training.
        schedule: How its operations were planned; empty: in the framework's own order.
        evaluations: What the model was worth, in order.
        steps: How many there are of which kind.
        step_kinds: Kinds of steps that take turns; empty where all are alike.
        conditions: Throttling and disturbance; None: not known.
        forecast: Forecast of its end while it ran, and what came.
        planned: The plan that it followed, predicted beside measured; None: it followed none.
        course: Throughput, power, temperature and frequency over time; None: too short.
        metrics: Figures of the run as a whole.
        operations: What each operation costs in a step, by layer and phase.
        operations_notes: What stands below the tables of operations.
        layers: Likewise by layer.
        phases: Likewise by phase.
        updates: Spans of phases by update of the parameters.
        kinds: Costs by kind of operation.
        unattributed: Costs of a step that no operation covers, by where they lie.
        outside_steps: Time and energy of named stretches outside of the steps.
        not_resolved: By table: what its rows, rests and groups leave out.
        energy_groups: Operations whose energy is known together only.
        energy_by_rail: Energy of a step by power rail, in J.
        energy_outside: The same of rails that the total does not contain.
        left_out: What the total of energy does not contain.
        missing: What is not told at all, and why.
        recording: What sampling and tracing did and cost.
        channels: What was sampled.
        environment: Versions and settings.
        failures: Parts of this report that failed inside.
        record: How it was recorded; None: it never was.
    """

    run: str = ""
    schema: int = 1
    state: str = ""
    created: str = ""
    notes: tuple[str, ...] = field(default=(), metadata={JSON: "status_notes"})
    workload: str = ""
    title: str = ""
    engine: str = ""
    batch_size: int | None = None
    threads: int | None = None
    precision: str | None = None
    processor: str | None = None
    seed: int | None = None
    device: DeviceFacts = field(default_factory=DeviceFacts)
    target: str = "local"
    power_model: PowerModelFacts | None = None
    imported: ImportedFiles = field(default_factory=ImportedFiles)
    figures_of: str = "clean steps"
    operations_of: str = "step"
    data: DataFacts | None = None
    model: ModelFacts = field(default_factory=ModelFacts)
    options: TrainingOptions = field(default_factory=TrainingOptions)
    schedule: ScheduleFacts = field(default_factory=ScheduleFacts)
    evaluations: tuple[Evaluation, ...] = ()
    steps: StepCounts = field(default_factory=StepCounts)
    step_kinds: tuple[StepKind, ...] = ()
    conditions: RunConditions | None = None
    forecast: ForecastFacts | None = None
    planned: PlanCompared | None = None
    course: Course | None = field(default=None, metadata={JSON: "curve"})
    metrics: Metrics = field(default_factory=Metrics)
    operations: tuple[CostRow, ...] = ()
    operations_notes: tuple[str, ...] = ()
    layers: tuple[CostRow, ...] = ()
    phases: tuple[CostRow, ...] = ()
    updates: tuple[CostRow, ...] = ()
    kinds: tuple[CostRow, ...] = ()
    unattributed: Mapping[str, Figures] = field(default_factory=dict, metadata={JSON: "rests"})
    outside_steps: Mapping[str, OutsideSteps] = field(
        default_factory=dict, metadata={JSON: "rests_outside_steps"}
    )
    not_resolved: Mapping[str, Figures] = field(default_factory=dict)
    energy_groups: tuple[EnergyGroup, ...] = ()
    energy_by_rail: Mapping[str, Figure] = field(default_factory=dict)
    energy_outside: Mapping[str, Figure] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    missing: tuple[NotMeasured, ...] = ()
    recording: Mapping[str, str | Figure] = field(default_factory=dict)
    channels: tuple[SampledChannel, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    failures: tuple[Failure, ...] = ()
    record: RecordFacts | None = None

    @property
    def interval_s(self) -> float:
        """Period of the sampler in s; 0 where nothing was sampled."""
        return 0.0 if self.record is None else self.record.interval_s

    @property
    def trace(self) -> str:
        """Schedule of traced steps; "" where none was recorded."""
        return "" if self.record is None else self.record.trace

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready: what `--json` prints of a run."""
        document = json_of(self)
        # Empty objects stand for what is not there.
        document["conditions"] = document["conditions"] or {}
        document["curve"] = document["curve"] or {}
        return document  # type: ignore[no-any-return]

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> RunReport:
        """The inverse of `to_dict`; keys of a newer wattstep are passed over.

        Raises:
            DamagedRunError: A part of it lacks or garbles something that it needs.
        """
        values: dict[str, Any] = {}
        for each in fields(cls):
            thing = document.get(json_name(each))
            if thing is not None:
                try:
                    values[each.name] = _PARTS.get(each.name, _as_it_is)(thing)
                except (TypeError, KeyError, ValueError, AttributeError) as error:
                    name = json_name(each)
                    raise DamagedRunError(
                        f"the report garbles its {name}: {error}", id="damaged-report"
                    ) from error
        return cls(**values)


RunFacts: TypeAlias = RunInfo | RunReport  # either says what ran, on what and how


def json_name(field: Any) -> str:
    """Name of a dataclass field in JSON."""
    return str(field.metadata.get(JSON, field.name))


def json_of(thing: Any) -> Any:
    """A part of a report, JSON-ready."""
    if thing is None or isinstance(thing, (str, int, float)):
        return thing
    if isinstance(thing, Figure):
        return thing.to_dict()
    if hasattr(thing, "to_dict") and not isinstance(thing, RunReport):
        thing = thing.to_dict()
    if isinstance(thing, Mapping):
        return {key: json_of(part) for key, part in thing.items()}
    if isinstance(thing, (list, tuple)):
        return [json_of(part) for part in thing]
    if is_dataclass(thing):
        return {json_name(each): json_of(getattr(thing, each.name)) for each in fields(thing)}
    return thing.item() if hasattr(thing, "item") else thing  # a number of numpy


def _as_it_is(thing: Any) -> Any:
    return thing


def _texts(things: Iterable[Any]) -> tuple[str, ...]:
    return tuple(map(str, things))


def _rows(make: Callable[[Mapping[str, Any]], Any]) -> Callable[[Any], tuple[Any, ...]]:
    return lambda rows: tuple(make(row) for row in rows)


def _by_name(make: Callable[[Mapping[str, Any]], Any]) -> Callable[[Any], dict[str, Any]]:
    return lambda table: {str(name): make(part) for name, part in table.items()}


def _of(kind: type[Any]) -> Callable[[Mapping[str, Any]], Any]:
    return lambda document: known(kind, document)


def _text_or_figure(thing: Any) -> str | Figure:
    return Figure.from_dict(thing) if isinstance(thing, Mapping) else str(thing)


# How parts that are no plain values are made from JSON.
_PARTS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "notes": _texts,
    "data": lambda facts: known(DataFacts, facts) if facts else None,
    "evaluations": _rows(Evaluation.from_dict),
    "steps": StepCounts.from_dict,
    "step_kinds": _rows(_of(StepKind)),
    "conditions": lambda facts: RunConditions.from_dict(facts) if facts else None,
    "planned": lambda facts: PlanCompared.from_dict(facts) if facts else None,
    "course": lambda facts: Course.from_dict(facts) if facts else None,
    "metrics": Metrics.from_dict,
    **dict.fromkeys(
        ("operations", "layers", "phases", "updates", "kinds"), _rows(CostRow.from_dict)
    ),
    "operations_notes": _texts,
    "unattributed": _by_name(Figures.from_dict),
    "outside_steps": _by_name(_of(OutsideSteps)),
    "not_resolved": _by_name(Figures.from_dict),
    "energy_groups": _rows(_of(EnergyGroup)),
    "energy_by_rail": _by_name(Figure.from_dict),
    "energy_outside": _by_name(Figure.from_dict),
    "left_out": _texts,
    "missing": _rows(_of(NotMeasured)),
    "recording": _by_name(_text_or_figure),
    "channels": _rows(_of(SampledChannel)),
    "failures": _rows(_of(Failure)),
    "record": lambda facts: known(RecordFacts, facts) if facts else None,
}
