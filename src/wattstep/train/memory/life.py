"""The life of a training stage by stage, each with the most memory that it held."""

from __future__ import annotations

import gc
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

from wattstep import engines, workloads
from wattstep.errors import InvalidValueError
from wattstep.record.sensors.machine import describe
from wattstep.recorded.device_memory import DevicePeak, peak_of
from wattstep.recorded.instruments import instruments_on
from wattstep.schema.engine import Trainer
from wattstep.schema.footprint import TrainingFacts
from wattstep.schema.oom_messages import ran_out
from wattstep.schema.processes import ChildNews
from wattstep.schema.run_documents import DataDocument
from wattstep.schema.settings import setting
from wattstep.schema.step_memory import DeviceMemory
from wattstep.schema.workload import PARTS, Preparation, WorkloadFacts
from wattstep.train.batch_bound import check_batch
from wattstep.train.memory.resident import ResidentMemory
from wattstep.train.memory.step import StepFootprint, follow_step, rest_of_process
from wattstep.train.settings import check_engine
from wattstep.train.strategies import MemoryStrategies

_UNDIVIDED = "preparation"  # of a workload that does not say which of `PARTS` begins
STAGES: Final = (
    "framework", *PARTS, _UNDIVIDED, "first step", "steady step", "evaluation", "saving",
    "reloading",
)  # fmt: skip
STEADY_STEPS = 3


class LifeNews(ChildNews, total=False):
    """News of a child whose memory is measured; `life` is a document of `Life`."""

    life: Mapping[str, Any]


Say = Callable[[LifeNews], None]


@dataclass(frozen=True, kw_only=True)
class FootprintSettings(MemoryStrategies):
    """Training whose memory is measured, and the stages of its life that are wanted.

    Attributes:
        processor: As `check_processing` takes it.
        evaluation: Whether the training is evaluated, which may take long.
        folder: Where the checkpoint is written and removed again; the system's folder for
            temporary files where None.
    """

    workload: str
    batch_size: int
    accumulate: int = 1
    engine: str = engines.DEFAULT
    precision: str = "fp32"
    processor: str = "cpu"
    threads: int | None = None
    seed: int = 0
    data_dir: str | None = None
    classes: int | None = None
    image_size: int | None = None
    channels_last: bool = False
    compiled: bool = setting(False, option="compile")
    evaluation: bool = True
    folder: str | None = None

    def __post_init__(self) -> None:
        numbers = (
            ("batch", self.batch_size),
            ("accumulate", self.accumulate),
            ("threads", self.threads),
        )
        for name, value in numbers:
            if value is not None and value < 1:
                raise InvalidValueError(f"--{name} {value}: it must be at least 1")
        check_engine(
            self.engine, self.processor, self.precision,
            channels_last=self.channels_last, compiled=self.compiled, **self.strategies,
        )  # fmt: skip
        self.check_strategies(compiled=self.compiled)
        for name, folder in (("data", self.data_dir), ("folder", self.folder)):
            if folder is not None and not Path(folder).is_dir():
                raise InvalidValueError(
                    f"--{name} {folder}: there is no such folder", id="no-such-folder"
                )

    def preparation(self) -> Preparation:
        """As the workload takes it."""
        return Preparation(
            batch_size=self.batch_size,
            accumulate=self.accumulate,
            seed=self.seed,
            data_dir=None if self.data_dir is None else Path(self.data_dir),
            classes=self.classes,
            image_size=self.image_size,
            channels_last=self.channels_last,
            compiled=self.compiled,
            **self.prepared,
        )


@dataclass(frozen=True, kw_only=True)
class Stage:
    """Stage of a training's life; sizes are resident bytes.

    Attributes:
        name: One of `STAGES`.
        before: When it began.
        peak: The high-water mark while it lasted, or None where it was not reached.
        after: When it ended.
        device_peak: The most that the framework's allocator held of a GPU's memory while it
            lasted, in bytes; None where there is none.
        failed: Why it did not come to its end, or None.
    """

    name: str
    before: int | None = None
    peak: int | None = None
    after: int | None = None
    device_peak: int | None = None
    failed: str | None = None


@dataclass(frozen=True, kw_only=True)
class Life:
    """Result of `measure`.

    Attributes:
        about: Facts of the training.
        stages: Those that were begun, in order.
        step: The memory of a step by category, or None where it came not so far.
        peak: Highest resident memory of steady steps, in bytes.
        device: GPU memory that steady steps took; None where they ran on the CPU.
        framework_at_rest: As `StepFootprint.at_rest`, before anything was prepared.
        prepared_at_rest: As `StepFootprint.at_rest`, before the first step.
        checkpoint: Bytes of the file with model and optimizers.
    """

    about: TrainingFacts
    stages: tuple[Stage, ...]
    step: StepFootprint | None = None
    peak: int | None = None
    device: DevicePeak | None = None
    framework_at_rest: int | None = None
    prepared_at_rest: int | None = None
    checkpoint: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return asdict(self)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Life:
        """The inverse of `to_dict`."""
        step, device = document.get("step"), document.get("device")
        return cls(
            **{
                **document,
                "stages": tuple(Stage(**stage) for stage in document["stages"]),
                "step": None if step is None else StepFootprint.from_dict(step),
                "device": None if device is None else DevicePeak(**device),
            }
        )


def measure(settings: FootprintSettings, say: Say) -> Life:
    """Trains a little, in this process, which should be a fresh one.

    Args:
        settings: The training.
        say: Told `{"stage": name}` when a stage begins, and `{"life": ...}` when one has ended,
            so that whoever listens knows how far it came if the system kills this process.

    Returns:
        What was found; memory that ran out is a result, too.

    Raises:
        WattstepError: A setting cannot be used, a part is missing, or nothing can be measured.
    """
    if engines.find(settings.engine).exports:  # said before minutes are spent on an export
        raise InvalidValueError(
            f"--engine {settings.engine} does not let a step's memory be followed: wattstep run "
            f"{settings.workload} --engine {settings.engine} measures the peak of its process",
            id="memory-not-followed",
        )
    check_batch(workloads.find(settings.workload).facts, settings.batch_size, settings.image_size)
    resident = ResidentMemory()
    try:
        with tempfile.TemporaryDirectory(dir=settings.folder) as folder:
            return _Training(settings, resident, Path(folder), say).live()
    finally:
        resident.close()


class _RanOut(Exception):
    """Memory ran out in a stage, which is noted."""


class _Training:
    """The stages in their order, and what is known after each."""

    def __init__(
        self, settings: FootprintSettings, resident: ResidentMemory, folder: Path, say: Say
    ) -> None:
        self._settings = settings
        self._resident = resident
        self._file = folder / "checkpoint.pt"
        self._say = say
        self._device: DeviceMemory | None = None
        self._engine = engines.find(settings.engine)
        self._trainer: Trainer | None = None
        self._prepare: Callable[..., Trainer]
        self._running = Stage(name=STAGES[0])
        self.life = Life(about={"device": describe()}, stages=())

    def live(self) -> Life:
        try:
            self._begin()
            self._train()
            self._end()
        except _RanOut:
            pass
        return self.life

    # --- stages ---------------------------------------------------------------------------

    def _begin(self) -> None:
        settings = self._settings
        with self._stage("framework"):
            workload = workloads.find(settings.workload)
            self._engine.load()
            self._device = self._engine.device_memory(settings.processor)
        self._prepare = partial(
            self._engine.prepare,
            workload,
            threads=settings.threads,
            processor=settings.processor,
            precision=settings.precision,
        )
        self._know(framework_at_rest=rest_of_process(self._engine, self._resident))
        with self._stage(_UNDIVIDED):
            self._trainer = self._prepare(
                preparation=replace(settings.preparation(), on_part=self._begin_part)
            )
        self._know(about={**self.life.about, **_about(workload.facts, self._running_trainer)})

    def _train(self) -> None:
        self._know(prepared_at_rest=rest_of_process(self._engine, self._resident))
        with self._stage("first step"):
            self._running_trainer.step()
        with self._stage("steady step"):
            for _ in range(STEADY_STEPS):
                self._running_trainer.step()
        allocator = instruments_on(self._engine.name).device_allocator
        device = None if self._device is None else peak_of(self._device, allocator)
        self._know(peak=self.life.stages[-1].peak, device=device)
        # What follows is slow and measures; it is no stage of a training.
        with self._stage("following a step", keep=False):
            self._know(step=follow_step(self._running_trainer, self._resident, self._device))

    def _end(self) -> None:
        if self._settings.evaluation:
            with self._stage("evaluation"):
                self._running_trainer.evaluate()
        with self._stage("saving"):
            self._know(checkpoint=self._running_trainer.save(self._file))
        self._trainer = None  # reloading begins in a process that holds no model yet
        gc.collect()
        self._resident.trim()
        if self._device is not None:
            self._device.trim()
        with self._stage("reloading"):
            self._trainer = self._prepare(preparation=self._settings.preparation())
            self._running_trainer.load(self._file)

    @property
    def _running_trainer(self) -> Trainer:
        assert self._trainer is not None
        return self._trainer

    # --- bookkeeping ----------------------------------------------------------------------

    @contextmanager
    def _stage(self, name: str, *, keep: bool = True) -> Iterator[None]:
        self._open(name)
        failed = None
        try:
            yield
        except (MemoryError, RuntimeError, ImportError, OSError) as error:
            if not ran_out(error):
                raise
            failed = f"memory ran out: {(str(error).splitlines() or ['no more was said'])[0]}"
            if self._device is not None:
                failed += f" ({self._engine.memory_account(self._settings.processor)})"
            raise _RanOut from error
        finally:
            if keep or failed:
                self._close(failed)

    def _begin_part(self, name: str) -> None:
        """A part of the preparation begins; what came before the first belongs to it."""
        if self._running.name == _UNDIVIDED:
            self._running = replace(self._running, name=name)
            self._say({"stage": name})
        elif self._running.name != name:
            self._close()
            self._open(name)

    def _open(self, name: str) -> None:
        self._say({"stage": name})
        self._resident.reset()
        if self._device is not None:
            self._device.reset()
        self._running = Stage(name=name, before=self._resident.read().all)

    def _close(self, failed: str | None = None) -> None:
        now = self._resident.read()
        ended = replace(
            self._running,
            peak=now.peak,
            after=now.all,
            device_peak=None if self._device is None else self._device.peak_reserved,
            failed=failed,
        )
        self._know(stages=joined(self.life.stages, ended))

    def _know(self, **fields: Any) -> None:
        self.life = replace(self.life, **fields)
        self._say({"life": self.life.to_dict()})


def joined(stages: tuple[Stage, ...], ended: Stage) -> tuple[Stage, ...]:
    """Stages with one more that has ended, or went on after others had come between."""
    earlier = next((stage for stage in stages if stage.name == ended.name), None)
    if earlier is None:
        return (*stages, ended)
    whole = replace(
        ended,
        before=earlier.before,
        peak=_larger(earlier.peak, ended.peak),
        device_peak=_larger(earlier.device_peak, ended.device_peak),
    )
    return tuple(whole if stage is earlier else stage for stage in stages)


def _larger(one: int | None, other: int | None) -> int | None:
    return max((size for size in (one, other) if size is not None), default=None)


def _about(facts: WorkloadFacts, trainer: Trainer) -> TrainingFacts:
    return {
        "workload": facts.name,
        "title": facts.title,
        "engine": trainer.engine.version(),
        "threads": trainer.threads,
        "model": trainer.model_facts(),
        "data": cast(DataDocument, asdict(trainer.data)),
    }
