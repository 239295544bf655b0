"""Outcome of a configuration of a sweep, with the evidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Final, Literal

from wattstep.errors import DamagedRunError
from wattstep.schema.checks import facts
from wattstep.schema.figure import Figure, FigureDocument
from wattstep.schema.figures import is_figure
from wattstep.schema.run_checks import MACHINE
from wattstep.schema.run_documents import MeasuringMachine

State = Literal[
    "trained",
    "out of memory",
    "killed",
    "crashed",
    "refused",
    "skipped",
    "interrupted",
    "unrecorded",
]

STATES: Final[tuple[State, ...]] = (
    "trained", "out of memory", "killed", "crashed", "refused", "skipped", "interrupted",
    "unrecorded",
)  # fmt: skip
MOST_SHOWN: Final = 100  # characters of a status that is none


@dataclass(frozen=True, kw_only=True)
class Configuration:
    """Training of a sweep.

    Attributes:
        threads: None for the framework's choice.
        repeat: Which of the repetitions, from 1.
        device: Label of the device in a cluster, or None for this machine.
        state: Of the device, as `device_state.DeviceState.label` spells it; "": as it is.
        engine: Framework; "": that of the whole sweep.
    """

    workload: str
    batch_size: int
    threads: int | None = None
    precision: str = "fp32"
    repeat: int = 1
    device: str | None = None
    state: str = ""
    engine: str = ""

    @property
    def name(self) -> str:
        """The name of its run, e.g. "lenet-b4-t1-fp32-r1", "lenet-b4-t1-fp32-mnn-r1"."""
        threads = "auto" if self.threads is None else self.threads
        state = self.state.replace("=", "").replace(" ", "-")
        parts = [
            self.workload, f"b{self.batch_size}", f"t{threads}", self.precision, self.engine, state,
            self.device,
        ]  # fmt: skip
        return "-".join([*(str(part) for part in parts if part), f"r{self.repeat}"])

    @property
    def family(self) -> tuple[str, int | None, str, str | None, str, str]:
        """Key that it shares with configurations that differ in batch size or repetition only."""
        return (
            self.workload, self.threads, self.precision, self.device, self.state, self.engine
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Evidence of how a training process ended.

    Attributes:
        exit_code: None where a signal ended it, or it never ran.
        signal: Number of the signal that ended it, or None.
        said: Message of the child's error, or the last line that it wrote.
        kernel: The kernel's line about the process that it killed for memory, or None.
        oom_kills: Processes that the kernel killed in the child's cgroup, or None without one.
        cgroup_peak: Most memory that the cgroup held in bytes, page cache included, or None.
        last_resident: Resident memory in bytes when it was last looked at, or None.
        peak_resident: Most resident memory in bytes that was seen, or None.
        steps: Steps that it is known to have done.
        notes: Further notes for a reader.
    """

    exit_code: int | None = None
    signal: int | None = None
    said: str | None = None
    kernel: str | None = None
    oom_kills: int | None = None
    cgroup_peak: int | None = None
    last_resident: int | None = None
    peak_resident: int | None = None
    steps: int = 0
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Outcome of a configuration.

    Attributes:
        status: "out of memory" is what the kernel, the allocator or Python said; "killed" is any
            other signal from outside; "crashed" is a mistake, with its message in the evidence;
            "refused" is a setting that the workload cannot take; "interrupted" and "unrecorded"
            (a full disk) run again.
        reason: In one line, "" where it trained.
        run: Folder of the run within the sweep's, or None.
        limit: Memory limit and how it was enforced, or "".
        started: Wall clock, seconds since 1970.
        ended: Wall clock, seconds since 1970.
        cooled: Seconds of cool-down before it.
        temperature: Hottest thermal zone in °C when it began, or None.
        worker: Address of the worker that measured it, or None for this process.
        transferred: Bytes of its run that came over the network, or None.
        attempts: How often it was begun; more than once where workers were lost.
        machine: Model, cpu, cores, memory and GPUs of where it was measured; empty where nobody told.
        versions: Of wattstep and torch there.
        finite: Whether the loss of every step was a finite number; None: it did not train, or its
            run does not tell.
        figures: Step time, peak memory, energy and the rest of `measuring.FIGURES`, of one that
            trained.
    """

    configuration: Configuration
    status: State
    reason: str = ""
    evidence: Evidence = field(default_factory=Evidence)
    run: str | None = None
    limit: str = ""
    started: float = 0.0
    ended: float = 0.0
    cooled: float = 0.0
    temperature: float | None = None
    worker: str | None = None
    transferred: int | None = None
    attempts: int = 1
    machine: MeasuringMachine = field(default_factory=MeasuringMachine)
    versions: Mapping[str, str] = field(default_factory=dict)
    finite: bool | None = None
    figures: Mapping[str, FigureDocument] = field(default_factory=dict)

    @property
    def final(self) -> bool:
        """True if the configuration is done with."""
        return self.status not in ("interrupted", "unrecorded")

    def figure(self, name: str) -> Figure | None:
        """A figure of its run, or None."""
        document = self.figures.get(name)
        return Figure.from_dict(document) if is_figure(document) else None

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready; `name` is the configuration's."""
        return {"name": self.configuration.name, **asdict(self)}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Outcome:
        """The inverse of `to_dict`; fields of a newer wattstep are passed over.

        Raises:
            DamagedRunError: A field is missing or garbled.
        """
        try:
            values = _known(cls, document)
            values["configuration"] = Configuration(
                **_known(Configuration, values["configuration"])
            )
            if "machine" in values:
                values["machine"] = facts(MACHINE)(values["machine"])
            evidence = _known(Evidence, values["evidence"])
            values["evidence"] = Evidence(**{**evidence, "notes": tuple(evidence["notes"])})
            outcome = cls(**values)
        except (TypeError, KeyError, ValueError, AttributeError) as error:
            raise DamagedRunError(f"an outcome lacks or garbles a field: {error}") from error
        _check(outcome)
        if outcome.status not in STATES:
            shown = repr(outcome.status)
            shown = shown if len(shown) <= MOST_SHOWN else f"{shown[:MOST_SHOWN]}…"
            raise DamagedRunError(f"an outcome has the unknown status {shown}")
        return outcome


def _check(outcome: Outcome) -> None:
    """Checks what reports take for texts and numbers.

    Raises:
        DamagedRunError: It is something else.
    """
    texts = (outcome.reason, outcome.limit)
    numbers = (outcome.started, outcome.ended, outcome.cooled, outcome.attempts)
    objects = (outcome.versions, outcome.figures)
    if not all(isinstance(text, str) for text in texts):
        raise DamagedRunError("an outcome has a reason or a limit that is no text")
    if not all(type(number) in (int, float) and abs(number) < 2**63 for number in numbers):
        raise DamagedRunError("an outcome has a time that is no number")
    if not all(isinstance(each, Mapping) for each in objects):
        raise DamagedRunError("an outcome lacks or garbles its figures")
    run = outcome.run
    if run is not None and (not isinstance(run, str) or run in ("", "..") or Path(run).name != run):
        raise DamagedRunError("an outcome names a run that is not in its sweep", id="foreign-run")


def _known(kind: type[Any], document: Mapping[str, Any]) -> dict[str, Any]:
    names = {item.name for item in fields(kind)}
    return {key: value for key, value in document.items() if key in names}
