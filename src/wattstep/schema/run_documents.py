"""Documents inside `run.json`, by key: what wattstep itself writes there.

They are JSON, written and read as it is: a run of an older wattstep lacks keys, and one of a newer
has more. What figures are made of is checked when it is read (`schema/run_checks.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from wattstep.schema.figure import FigureDocument


class Cluster(TypedDict):
    """Cores that are alike and share a clock: kind, their numbers, highest clock in Hz."""

    kind: str
    cores: list[int]
    max_hz: float | None


class MachineFacts(TypedDict, total=False):
    """A machine, reduced to what the figures need: see `record.sensors.machine.describe`.

    `memory` is in bytes; `clocks` has power mode and governors in words, where they stand for them.
    What is None is not there, or nothing tells it.
    """

    model: str | None
    board: str | None
    cpu: str | None
    architecture: str | None
    cores: int | None
    clusters: list[Cluster] | None
    governors: dict[str, str] | None
    power_mode: str | None
    memory: int | None
    kernel: str | None
    system: str | None
    virtual: bool | None
    hypervisor: str | None
    clocks: str


class NamedGpu(TypedDict, total=False):
    """A GPU by the names that the driver's own tools know it by, as far as they are known."""

    name: str
    number: int
    uuid: str
    pci: str


class GpuFacts(NamedGpu, total=False):
    """A GPU, as the engine that trains on it describes it; `memory` in bytes, `beside` others in use.

    Of an OpenCL device `kind` says what it is: "gpu", "accelerator", or "cpu", the host's own cores.
    """

    kind: str
    compute_capability: str
    memory: int
    multiprocessors: int
    shares_memory: bool
    driver: str
    l4t: str
    cuda: str
    cudnn: int
    beside: list[NamedGpu]


class DeviceFacts(MachineFacts, total=False):
    """The machine of a run.

    `gpu` trained, or `opencl`, a device of OpenCL that is the machine's own CPU; `gpus` are names of
    those that are there; `sensors_of` says whose sensors were replayed; `emulated_on` is the machine
    that a board was emulated on, by the numbers that `emulation` names; `slowed` is the part of the training's time that its lowered clocks made longer, by pauses. Of a
    trace of another tool: which of how many processes it is of, and blocks of operations by name.
    """

    gpu: GpuFacts
    opencl: GpuFacts
    gpus: list[str]
    rank: int
    world_size: int
    blocks: dict[str, int]
    sensors_of: str
    emulation: str
    slowed: float
    emulated_on: MachineFacts


def with_processor(device: DeviceFacts, facts: GpuFacts) -> DeviceFacts:
    """A machine's description with that of the device that trained.

    Args:
        device: The machine.
        facts: As `Engine.device_facts` gives them; empty where its CPU trained.
    """
    if not facts:
        return device
    if facts.get("kind") == "cpu":
        return {**device, "opencl": facts}
    return {**device, "gpu": facts}


class MeasuringMachine(DeviceFacts, total=False):
    """Machine of a sweep; `where` says that there are several: "a cluster", "a fleet"."""

    where: str


class CalibrationDevice(TypedDict, total=False):
    """The board that a calibration is of."""

    model: str | None
    board: str | None


class CalibrationFile(TypedDict, total=False):
    """Content of a calibration file: the board, and by channel what `recorded.calibration` writes."""

    schema: int
    device: CalibrationDevice
    calibrations: Mapping[str, Mapping[str, Any]]


class ModelFacts(TypedDict, total=False):
    """A network: numbers of parameters and of layers that hold any; of an imported trace its roots."""

    parameters: int | None
    trainable_parameters: int
    layers: int
    weight_layers: int
    tokens_per_sample: int
    modules: list[str]
    gpus: list[str]
    processors: list[str]


class TrainingOptions(TypedDict, total=False):
    """How a workload was built and trained, beside what `RunInfo` has fields for.

    Of somebody's own training `script` and `arguments` alone: a file's name or "-m MODULE", as `wattstep
    profile` takes it, and of its arguments what `store.shareable` lets through; other recordings have none.
    `exported`: it trained from a folder of `wattstep engines export`; `one_thread`: its engine never has more.
    """

    script: str
    arguments: str
    accumulate: int | None
    rate_rule: str
    classes: int
    image_size: int
    frames_per_step: float | None
    matmul_precision: str
    cudnn_allow_tf32: bool
    channels_last: bool | None
    compiled: bool | None
    policy: str | None
    checkpointing: bool | None
    train_last: int | None
    lora: int | None
    optimizer: str | None
    offload: bool | None
    optimizer_kernel: str | None
    interop_threads: int | None
    opencl_mode: str | None
    cores: str | None
    allocator: str | None
    exported: bool | None
    one_thread: bool | None
    until: str | None
    governor: str | None
    subtract_idle: str | None
    exclude: Sequence[str] | None
    images_per_day: int
    days: int
    epochs_per_day: int


class DataDocument(TypedDict, total=False):
    """The data of a training, as `schema.workload.DataFacts`."""

    name: str
    stand_in: bool
    stands_for: str | None
    sha256: str
    samples: int


class AskedLength(TypedDict, total=False):
    """When a run is to end, where that is known before."""

    steps: int | None
    clean_steps: int | None
    seconds: float | None
    least_steps: int | None


class PowerModelFacts(TypedDict):
    """A power model that was asked for: watts a core, idle and busy, and where they come from."""

    name: str
    idle_watts_a_core: float
    busy_watts_a_core: float
    source: str


class ImportedFile(TypedDict, total=False):
    """A file of another tool: its name, its format, and what of it was ignored, by kind."""

    file: str
    format: str
    ignored: dict[str, int]


class ImportedTrace(ImportedFile, total=False):
    """A trace: whether its steps are "marked", or it is one as a "whole", and what was left out, by reason."""

    steps: str
    events: int
    rows: int
    left_out: dict[str, LeftOutFacts]


class LeftOutFacts(TypedDict):
    """Events of a trace that are in no step, and their time in s together."""

    events: int
    total_s: float


class ImportedTelemetry(ImportedFile, total=False):
    """A log and the number of its values."""

    values: int


class ClockMapFacts(TypedDict):
    """A map of clocks: see `importing.clocks.alignment.ClockMap`."""

    method: str
    from_ns: list[int]
    to_ns: list[int]
    uncertainty_ns: list[int]
    rate: float
    rate_uncertainty: float
    facts: dict[str, Any]
    notes: list[str]


class AlignmentFacts(TypedDict, total=False):
    """How the clock of a log was aligned with the trace's: offset at its begin in s, rate with its interval."""

    file: str
    method: str
    uncertainty_s: float | None
    offset_s: float
    rate: float
    rate_low: float
    rate_high: float
    map: ClockMapFacts


class PowerStepFacts(TypedDict, total=False):
    """Steps that the period of the power shows, or the reason why there are none.

    Stretches and the earliest, likely and latest times of their ends are in ns; the period, with
    its interval, in s.
    """

    found: bool
    reason: str
    busy_ns: list[int]
    idle: bool
    begin_ns: list[int]
    end_ns: list[int]
    count: int
    count_low: int
    count_high: int
    share: float
    period_s: float | None
    low_s: float
    high_s: float
    method: str | None


class ImportedFiles(TypedDict, total=False):
    """What a run was made of that other tools recorded, and how their clocks were brought together.

    `credit` says whose recording it is, and under which licence.
    """

    credit: str
    trace: ImportedTrace
    telemetry: list[ImportedTelemetry]
    alignment: list[AlignmentFacts]
    steps: PowerStepFacts


class PlannedUpdate(TypedDict):
    """The plan of one parameter update.

    Attributes:
        tasks: Number of operations that it places.
        workers: Threads that begin them.
        threads: How many operations have so many threads, by that number as text.
        pinned: Whether operations are kept to cores.
        policy: That made it: the simplest one that comes to it, which may be another than was asked.
    """

    tasks: int
    workers: int
    threads: dict[str, int]
    pinned: bool
    policy: str


class Team(TypedDict):
    """Cores that an operation of a plan has; its name, layer, phase and shapes are as in traced steps."""

    name: str
    layer: str
    phase: str
    shapes: str
    cores: int


class Interference(TypedDict):
    """How many times as long operations of a kind take beside one of another, with an interval of 90 %."""

    kind: str
    beside: str
    value: float
    low: float
    high: float


class Relearning(TypedDict):
    """That steps did not take what they had, and operations were measured again.

    Attributes:
        step: Steps done until then.
        steps_factor: Times as long as at first that steps took.
        operations_factor: Times as long as was known that operations took when they were measured; None: as long.
        again: Whether the plan is another one since.
        learning_steps: How often updates were carried out for it.
    """

    step: int
    steps_factor: float
    operations_factor: float | None
    again: bool
    learning_steps: int


class PlannedCluster(TypedDict):
    """Cores of one kind in a plan, "0-3".

    Attributes:
        cores: The system's numbers.
        tasks: Operations that it places there; those on all cores count for each kind.
        tasks_s: Seconds that these take in a step by the plan, summed.
    """

    cores: str
    tasks: int
    tasks_s: float


class ScheduleFacts(TypedDict, total=False):
    """How the operations of a step were planned, where the engine carried out a plan.

    What follows `teams` is there where operations were measured.

    Attributes:
        policy: That was asked for; "given" for a plan that somebody else made.
        updates: Of the parameters within a step, in order.
        teams: Cores by operation, where operations with different numbers of them run beside each other: what
            they share CPU time and energy by. Empty where all have as many, or the plan changed.
        cores: That were planned for.
        predicted: Time of a step by the plan, a figure as JSON.
        default: Likewise by the framework's own plan.
        bound_s: What no plan goes below: the larger of the next two, summed over updates.
        path_s: Critical path in s, each operation as fast as it can be.
        work_s: Least work in s, shared evenly among all cores.
        beside_s: Of the predicted step what lies beside its operations: batches, calls of workers.
        times: "learned" in this run, or "kept" from runs before.
        learning_steps: How often updates were carried out to measure operations.
        changed_by: Times as long as was kept that operations took at the begin; None: as long.
        handover_s: From the end of an operation to the begin of one that another worker had waited with.
        interference: By kinds of operations.
        relearned: When operations were measured again.
        clusters: By kind of core, where the plan tells several apart.
    """

    policy: str
    updates: list[PlannedUpdate]
    teams: list[Team]
    cores: int
    predicted: FigureDocument
    default: FigureDocument
    bound_s: float
    path_s: float
    work_s: float
    beside_s: float
    times: str
    learning_steps: int
    changed_by: float | None
    handover_s: float
    interference: list[Interference]
    relearned: list[Relearning]
    clusters: list[PlannedCluster]


class PlannedFacts(TypedDict, total=False):
    """The plan that a run follows.

    The device that it is for, its power mode, the configuration in words, the settings that the run has
    otherwise ("batch_size 8 in place of 16"), and by metric the predicted figure as JSON.
    """

    device: str
    mode: str | None
    configuration: str
    changed: list[str]
    figures: Mapping[str, FigureDocument]


class KeepFacts(TypedDict, total=False):
    """For how long rows stay as they were recorded.

    Attributes:
        raw_s: Age in s from which on samples may be thinned.
        steps_s: Likewise of steps.
        thinned_reads: How many single values of all channels were, once the run is closed.
        thinned_steps: Likewise of steps.
    """

    raw_s: float
    steps_s: float
    thinned_reads: int
    thinned_steps: int


class DeviceClockFacts(TypedDict, total=False):
    """How the clock of a device that ran behind the host was mapped, and what tracing costs it.

    Attributes:
        piece_ns: For each piece of work, as it was measured beside traced steps.
    """

    device: str
    uncertainty_ns: float | None
    rate: float | None
    anchors: int | None
    piece_ns: float | None
