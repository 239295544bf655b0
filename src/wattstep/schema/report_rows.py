"""The rows of a run's report: operations and what no operation covers, channels, conditions, the course of the run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final, TypeVar

from wattstep.schema.condition_documents import CanaryFacts, ConditionFacts
from wattstep.schema.figure import Figure
from wattstep.schema.figures import Figures, is_figure
from wattstep.schema.run_documents import CalibrationFile

Part = TypeVar("Part")

JSON: Final = "json"  # in the metadata of a field: its name in JSON, where that is another
BESIDE: Final = ""  # its parts stand beside the other fields


@dataclass(frozen=True, kw_only=True)
class CostRow:
    """Cost of an operation, layer, phase, kind of operation or update in one step.

    Attributes:
        labels: What the row is of: "name", "layer", "phase", "kind", "processor", "update".
        figures: By quantity in SI units: calls, time, busy_time, share, energy, power,
            cpu_utilization, memory, flops, bytes; "energy_by_rail" has one a power rail.
        step_kinds: In which kinds of steps it runs ("A, B"); None where steps are all alike.
    """

    labels: Mapping[str, str | None] = field(default_factory=dict)
    figures: Figures = field(default_factory=Figures, metadata={JSON: BESIDE})
    step_kinds: str | None = None

    @property
    def name(self) -> str:
        """Of the operation, or ""."""
        return self.labels.get("name") or ""

    @property
    def layer(self) -> str:
        """Of the model, or ""."""
        return self.labels.get("layer") or ""

    @property
    def phase(self) -> str:
        """Of the step, or ""."""
        return self.labels.get("phase") or ""

    @property
    def kind(self) -> str:
        """Of operation ("convolution"), or ""."""
        return self.labels.get("kind") or ""

    @property
    def processor(self) -> str:
        """Processor that it ran on; "cpu" where all operations did."""
        return self.labels.get("processor") or "cpu"

    def figure(self, name: str) -> Figure:
        """A quantity that every row of its table has ("time", "calls").

        Raises:
            KeyError: It has none of that name.
        """
        figure: Figure = self.figures[name]
        return figure

    @property
    def time(self) -> Figure | None:
        """Of a step, in s."""
        return self.figures.figure("time")

    @property
    def energy(self) -> Figure | None:
        """Of a step, in J."""
        return self.figures.figure("energy")

    def to_dict(self) -> dict[str, Any]:
        """Labels and figures side by side, as tables show them."""
        kinds = {} if self.step_kinds is None else {"step_kinds": self.step_kinds}
        return {**self.labels, **self.figures, **kinds}

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> CostRow:
        """The inverse of `to_dict`; Figures may be those or as JSON has them."""
        texts = {
            name: thing
            for name, thing in row.items()
            if thing is None or isinstance(thing, str)
        }  # fmt: skip
        kinds = texts.pop("step_kinds", None)
        return cls(labels=texts, figures=Figures.from_dict(row), step_kinds=kinds)


@dataclass(frozen=True, kw_only=True)
class StepKind:
    """Kind of steps, of several that alternate.

    Attributes:
        kind: Its letter.
        share: Of all steps, a ratio.
        time: Of one such step, in s.
        traced: How many were traced.
    """

    kind: str
    share: Figure
    time: Figure
    traced: int


@dataclass(frozen=True, kw_only=True)
class EnergyGroup:
    """Operations whose energy is known together only.

    Attributes:
        name: What they share.
        level: In what they are alike.
        members: Their names.
        resolved: Whether the interval of their energy leaves 0 out.
        time: Of a step, in s.
        power: In W.
        energy: Of a step, in J.
    """

    name: str
    level: str
    members: tuple[str, ...]
    resolved: bool
    time: Figure
    power: Figure
    energy: Figure


@dataclass(frozen=True, kw_only=True)
class OutsideSteps:
    """A stretch with a name outside of the steps (startup, evaluation), all occurrences together.

    Attributes:
        total: Time in s.
        energy: In J.
        outside_steps: Always true: tells it from rests within steps.
    """

    total: Figure
    energy: Figure
    outside_steps: bool = True


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Evaluation of the model at a time.

    Attributes:
        step: Steps that were done.
        samples: On how many it was judged; None: not known.
        measures: "accuracy" (ratio), "loss".
    """

    step: int
    samples: int | None
    measures: Figures = field(default_factory=Figures, metadata={JSON: BESIDE})

    def to_dict(self) -> dict[str, Any]:
        """JSON form: measures beside the counts."""
        return {"step": self.step, "samples": self.samples, **self.measures}

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> Evaluation:
        """The inverse of `to_dict`."""
        return cls(
            step=row["step"], samples=row.get("samples"), measures=Figures.from_dict(row)
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class StepCounts:
    """Numbers of steps recorded, by kind; None where unknown.

    Attributes:
        recorded: All of them.
        warmup: First ones, which do not count.
        clean: Those that the figures are of.
        traced: Those that were traced.
        settling: Those right after a traced one.
        exploring: Those in which a governor looked what caps of the clocks do.
        disturbed: Those that something else disturbed.
        throttled: Those in which the device was throttled.
        left_out: Those that figures leave out on request.
    """

    recorded: int | None = None
    warmup: int | None = None
    clean: int | None = None
    traced: int | None = None
    settling: int | None = None
    exploring: int | None = None
    disturbed: int | None = None
    throttled: int | None = None
    left_out: int | None = None

    def to_dict(self) -> dict[str, int]:
        """Those that are told, by name."""
        counts = {each.name.replace("_", " "): getattr(self, each.name) for each in fields(self)}
        return {name: count for name, count in counts.items() if count is not None}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> StepCounts:
        """The inverse of `to_dict`."""
        return known(cls, {name.replace(" ", "_"): n for name, n in document.items()})


@dataclass(frozen=True, kw_only=True)
class ConditionStretch:
    """A stretch of time in which the device was throttled or disturbed.

    Attributes:
        start: In s from the begin of the first step.
        end: Likewise.
        uncertain: How much earlier it may have begun, in s.
        kind: "throttled" or "disturbed".
        cause: In a word.
        evidence: The channel that shows it, and what it showed.
    """

    start: float
    end: float
    uncertain: float = 0.0
    kind: str
    cause: str = ""
    evidence: str = ""


@dataclass(frozen=True, kw_only=True)
class RunConditions:
    """Under which conditions the steps were made.

    Attributes:
        throttled_steps: How many of `of_steps`.
        disturbed_steps: Likewise; None: could not be seen.
        of_steps: Steps that would count.
        excluded: Which of the two the figures leave out.
        watched: Sensors that tell of throttling.
        stretches: The first ones, in order.
        more_stretches: How many follow.
        notes: What else a reader must know.
        recorded: What was waited for before and after, as `run.json` has it.
    """

    throttled_steps: int = 0
    disturbed_steps: int | None = None
    of_steps: int = 0
    excluded: tuple[str, ...] = ()
    watched: tuple[str, ...] = ()
    stretches: tuple[ConditionStretch, ...] = ()
    more_stretches: int = 0
    notes: tuple[str, ...] = ()
    recorded: ConditionFacts = field(default_factory=ConditionFacts)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> RunConditions:
        """From JSON."""
        stretches = tuple(known(ConditionStretch, one) for one in document.get("stretches") or ())
        return known(cls, {**document, "stretches": stretches})


@dataclass(frozen=True, kw_only=True)
class PlannedRow:
    """A metric of a run beside what its plan predicted.

    Attributes:
        metric: Name.
        predicted: With the interval that was to hold in 90 % of cases.
        measured: Of the run, with its own status; missing where the run does not know it.
        inside: Whether the run's value lies in the predicted interval; None: the run has none.
    """

    metric: str
    predicted: Figure
    measured: Figure
    inside: bool | None


@dataclass(frozen=True, kw_only=True)
class PlanCompared:
    """The plan that a run followed, and what came of it.

    Attributes:
        device: That it is for.
        mode: Power mode of that device; None: the one that its file is of.
        configuration: Its settings, in words.
        changed: Settings that the run has otherwise.
        rows: Its metrics.
    """

    device: str
    mode: str | None = None
    configuration: str = ""
    changed: tuple[str, ...] = ()
    rows: tuple[PlannedRow, ...] = ()

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> PlanCompared:
        """From JSON."""
        rows = tuple(known(PlannedRow, row) for row in document.get("rows") or ())
        return known(cls, {**document, "rows": rows})


@dataclass(frozen=True, kw_only=True)
class CourseColumn:
    """A quantity in the bins of a course.

    Attributes:
        name: "throughput", "power", "temperature" or "frequency".
        unit: SI unit.
        status: Of all values.
        source: Sensor or clock.
        method: How values were made.
        values: One a bin; None where it has none.
        zone: Of one sensor of several, its name; else None.
    """

    name: str
    unit: str
    status: str
    source: str = ""
    method: str = ""
    values: tuple[float | None, ...] = ()
    zone: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        document = {each.name: getattr(self, each.name) for each in fields(self)}
        if self.zone is None:
            del document["zone"]
        return document


@dataclass(frozen=True, kw_only=True)
class Course:
    """The course of a run in bins of equal length.

    Attributes:
        bin: Length in s.
        begin: Of each bin, in s from the first step.
        columns: What was seen.
        zones: The temperature of each sensor.
        throttled_from: When throttling set in, in s; None: not seen.
        throttled: Begin and end of each stretch of throttling in s.
    """

    bin: float
    begin: tuple[float, ...]
    columns: tuple[CourseColumn, ...] = ()
    zones: tuple[CourseColumn, ...] = ()
    throttled_from: float | None = None
    throttled: tuple[tuple[float, float], ...] = ()

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Course:
        """From JSON."""
        columns = {
            name: tuple(known(CourseColumn, one) for one in document.get(name) or ())
            for name in ("columns", "zones")
        }
        throttled = tuple((begin, end) for begin, end in document.get("throttled") or ())
        return known(cls, {**document, **columns, "throttled": throttled})


@dataclass(frozen=True, kw_only=True)
class RecordFacts:
    """Recording of a run, as far as comparing it with others depends on it.

    Attributes:
        interval_s: Period of the sampler in s.
        trace: Which steps were traced.
        calibration: Of power, or None.
        canary: How fast the machine was before and after.
        gaps: Begin and end in ns of stretches in which nothing was sampled.
        lost: By part of the recorder that ended early, when, in ns.
        samples: Of a clean step, where all have as many.
        sensors: What energy rests on: runs are alike in it where the words are; "" without energy.
        half_step_w: Half of the smallest step of the power sensor, in W.
        marred: Share of the steps that count that were "throttled", "disturbed".
    """

    interval_s: float = 0.0
    trace: str = ""
    calibration: CalibrationFile | None = None
    canary: CanaryFacts = field(default_factory=CanaryFacts)
    gaps: tuple[tuple[int, int], ...] = ()
    lost: Mapping[str, int] = field(default_factory=dict)
    samples: float | None = None
    sensors: str = ""
    half_step_w: float = 0.0
    marred: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class NotMeasured:
    """Something that a run does not tell, and why."""

    what: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class SampledChannel:
    """A channel, and what its samples can carry.

    Attributes:
        name: As in `schema.channel.Channel`, like unit, kind, domain, role, source and status.
        window: Time in s that the source averages over, where documented.
        observed_share: Part of the time in which the source looks, where documented.
        resolution: Smallest step in `unit`, where documented.
        note: What a reader of its figures must know.
        samples: How many values.
        failed_reads: How many reads failed.
        update_interval: True period of new values in s, the bound where only that is known.
        refresh: The same as a figure.
        resolution_seen: Smallest step that was seen, in `unit`.
        repeated_share: Share of the samples that repeat the one before.
        read_cost: Of one read, in s.
    """

    name: str
    unit: str = ""
    kind: str = ""
    domain: str = ""
    role: str = ""
    source: str = ""
    status: str = "measured"
    window: float | None = None
    observed_share: float | None = None
    resolution: float | None = None
    note: str = ""
    samples: int | None = 0
    failed_reads: int = 0
    update_interval: float | None = None
    refresh: Figure | None = None
    resolution_seen: float | None = None
    repeated_share: float | None = None
    read_cost: float | None = None


def known(kind: type[Part], document: Mapping[str, Any]) -> Part:
    """A row from JSON: figures as such, lists as tuples, keys of a newer wattstep passed over."""
    names = {each.name for each in fields(kind)}  # type: ignore[arg-type]
    return kind(**{name: _typed(value) for name, value in document.items() if name in names})


def _typed(value: Any) -> Any:
    if is_figure(value):
        return Figure.from_dict(value)
    return tuple(value) if isinstance(value, list) else value
