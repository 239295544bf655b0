"""Trains an exported network on a phone: what goes there, and how the runner's journal becomes a run."""

from __future__ import annotations

import signal
import tempfile
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

import numpy as np

from wattstep import workloads
from wattstep.engines.exported.folder import ExportedFolder
from wattstep.engines.exported.trainer import JOINT, check_loss
from wattstep.engines.exported.updates import Update
from wattstep.engines.marked_tracer import Operation, operation_fields
from wattstep.engines.mnn.engine import ENGINE as MNN
from wattstep.engines.mnn.graph import GRAPH, OPERATIONS, read_operations
from wattstep.engines.mnn.tracer import describe
from wattstep.errors import InvalidValueError, RecordingError
from wattstep.record.sensors.android.loop import Sample
from wattstep.record.tracing.schedule import WANTED, TraceMode
from wattstep.remote.phone.following import JobFollowing
from wattstep.remote.phone.job import ENDED, FOLDER, FULL, Job, Phone
from wattstep.remote.phone.recording import PhoneRecording
from wattstep.remote.phone.runner import PROGRAM, Runner
from wattstep.remote.phone.runner_clock import RunnerClock
from wattstep.remote.phone.runner_journal import (
    Beginning,
    ClockStamp,
    Ending,
    JournalReader,
    Memory,
    Name,
    Record,
    Remark,
    Step,
)
from wattstep.remote.ssh import ConnectionLostError
from wattstep.schema.checks import MOST_NUMBER
from wattstep.schema.journal import OPERATION, Mark
from wattstep.schema.processes import ending_words
from wattstep.schema.run_documents import TrainingOptions
from wattstep.schema.sanitize import plain
from wattstep.schema.settings import option_of
from wattstep.train.child.limits import MemoryLimit
from wattstep.train.description import describe_training
from wattstep.train.loop import LOST, diverged_note
from wattstep.train.progress import Progress
from wattstep.train.settings import DEFAULT_SECONDS, TrainingSettings

ENGINE: Final = MNN.name
PLAN: Final = "plan"
# What is asked of the machine that trains, and the runner does not do; by field of the settings.
_UNHEEDED: Final = (
    "until", "idle", "stable", "sustain", "foreground", "calibration", "memory_reserve", "data_dir",
    "keep",
)  # fmt: skip
_MEMORY: Final = {
    "peak": (Mark.PEAK, 0), "traced": (Mark.PEAK, 1), "before": (Mark.RESIDENT, 0), "after": (Mark.RESIDENT, 1),
}  # fmt: skip
_CRASH: Final = (
    "a crash within MNN or its build: `wattstep run --from` without --target shows whether the export trains on "
    "this computer, `adb logcat -b crash` what Android says of it"
)
_ENDINGS: Final = {
    signal.SIGKILL: "Android kills so when memory runs out: export a smaller --batch",
    signal.SIGSEGV: _CRASH,
    signal.SIGBUS: _CRASH,
    signal.SIGABRT: _CRASH,
    signal.SIGILL: f"{_CRASH}; or it was built for a newer processor than the phone's",
}
NO_CANARY: Final = "no canary: nothing but the training runs on the phone"


@dataclass(frozen=True, kw_only=True)
class PhoneTraining:
    """A training that a phone can do.

    Attributes:
        settings: The settings.
        folder: The exported training.
    """

    settings: TrainingSettings
    folder: ExportedFolder

    @classmethod
    def of(cls, settings: TrainingSettings, limit: MemoryLimit | None) -> PhoneTraining:
        """Of settings; the phone is not asked.

        Raises:
            InvalidValueError: They ask for what cannot be had on a phone, or nothing was exported.
            DamagedRunError: The export was cut off, or changed.
        """
        if settings.exported is None:
            raise InvalidValueError(
                f"{settings.workload} cannot be trained on a phone as it is: wattstep engines export "
                f"{settings.workload} --engine {ENGINE} -o DIR, then wattstep run --from DIR --target "
                "adb://SERIAL,runner=DIR (docs/phones.md)",
                id="no-engine-on-phone",
            )
        if settings.engine != ENGINE:
            raise InvalidValueError(
                f"--from: {settings.engine} is not trained with on a phone, {ENGINE} is: wattstep engines export "
                f"{settings.workload} --engine {ENGINE} -o DIR",
                id="no-engine-on-phone",
            )
        usual = {each.name: each.default for each in fields(TrainingSettings)}
        for name in _UNHEEDED:
            if getattr(settings, name) != usual[name]:
                raise InvalidValueError(
                    f"--{option_of(TrainingSettings, name)}: not with a phone", id="not-on-phone"
                )
        if limit is not None:
            raise InvalidValueError("--memory-limit: not with a phone", id="not-on-phone")
        workload = workloads.find(settings.workload)
        MNN.check(workload, settings.preparation, settings.precision)
        folder = MNN.open_folder(Path(settings.exported), workload, settings.preparation)
        return cls(settings=settings, folder=folder)

    @contextmanager
    def files(self, runner: Runner) -> Iterator[list[Path]]:
        """All that goes into the command's folder on the phone; some of it lies here for as long as the block."""
        with tempfile.TemporaryDirectory(prefix="wattstep-phone-") as made:
            plan = [f"graph {GRAPH}", f"batches {self.folder.training.batches}", *self._schedule()]
            arrays = []
            for name, array in self.folder.arrays.items():
                path = Path(made, f"{name}.raw")
                # MNN's inputs are of these two types, in the order that all of Android's processors have.
                kind = "<i4" if np.issubdtype(array.dtype, np.integer) else "<f4"
                raw = np.ascontiguousarray(array, kind)
                raw.tofile(path)
                arrays.append(path)
                plan.append(f"input {name} {path.name} {raw.nbytes // len(raw)}")
            Path(made, PLAN).write_text("\n".join(plan) + "\n", encoding="ascii")
            yield [*runner.files, self.folder.file(GRAPH), Path(made, PLAN), *arrays]

    def _schedule(self) -> list[str]:
        """Lines of the runner's plan about steps."""
        settings, optimizer = self.settings, self.folder.training.optimizer
        update = Update(ENGINE, optimizer.name, optimizer.options, optimizer.rate)
        mode = TraceMode.parse(settings.trace_mode)
        word = "every" if mode.every is not None else mode.text
        lines = [
            f"threads {settings.threads or 0}",
            f"warmup {settings.warmup}",
            f"steps {settings.steps or 0}",
            f"seconds {settings.seconds or DEFAULT_SECONDS!r}",
            f"least_steps {settings.least_steps}",
            f"trace {word} {mode.every or 0}",
        ]
        if update.betas is not None:  # the runner computes `Update.scalars` of each step
            lines.append(f"adam {optimizer.rate!r} {update.betas[0]!r} {update.betas[1]!r}")
        return lines

    @property
    def samples(self) -> int:
        """Of a step."""
        return self.settings.batch_size

    def about(self, version: str, target: str) -> dict[str, Any]:
        """Fields of `RunInfo`.

        Args:
            version: Of the phone's MNN.
            target: As the run keeps it.
        """
        training, settings = self.folder.training, self.settings
        described = describe_training(
            settings, engine=f"{ENGINE} {version}", threads=settings.threads,
            options=TrainingOptions(), data=training.data,
            model=training.model,
        )  # fmt: skip
        return {
            **described, "target": target, "warmup": settings.warmup, "trace": settings.trace_mode,
        }  # fmt: skip

    def share(self, clean: int, first: Step, last: Step) -> float:
        """Of the run that is done, about."""
        if self.settings.steps is not None:
            return min(clean / self.settings.steps, 0.99)
        seconds = self.settings.seconds or DEFAULT_SECONDS
        return min((last.end_ns - first.begin_ns) * 1e-9 / seconds, 0.99)


class TrainingFollowing(JobFollowing):
    """Follower of a training on a phone.

    Args:
        recording: The run.
        job: The runner.
        phone: To reach it again.
        training: What it trains.
        on_progress: Told where it is.
        patience_s: How long a lost phone is waited for.
        say: Takes lines for the user.

    Attributes:
        steps: Number of steps that are known.
    """

    storage_full = f"the phone's storage is full: free some in {FOLDER}, or train fewer steps"

    def __init__(
        self,
        recording: PhoneRecording,
        job: Job,
        phone: Phone,
        training: PhoneTraining,
        on_progress: Callable[[Progress], None],
        patience_s: float,
        say: Callable[[str], None],
    ) -> None:
        super().__init__(recording, job, phone, patience_s, say)
        self._training, self._tell = training, on_progress
        self._reader = JournalReader()
        self._writer = RunWriter(recording, training)
        self._last_words: deque[str] = deque(maxlen=3)
        self._first: Step | None = None
        self._clean = 0
        self._after_traced = False
        self._lost = 0  # losses in a row that nothing can be calculated with
        self._diverged = False
        self._ended = False
        self.steps = 0

    def _line(self, record: Sample) -> None:
        """MNN prints what it finds; of it the last lines tell why it ended."""
        if record.text.strip():
            self._last_words.append(record.text.strip())

    def _release(self, *, everything: bool = False) -> None:
        if self._recording.problem is None:
            try:
                self._writer.release(everything=everything)
            except OSError as error:
                self._recording.fail(f"the run cannot be written ({error.strerror})")

    def _journal(self, data: bytes) -> None:
        """Takes in what came of the runner's journal.

        Raises:
            RecordingError: It is garbled, or a loss is not what it must be.
        """
        last = None
        for record in self._reader.take(data):
            if isinstance(record, Step):
                if self._diverged:
                    continue
                self._check(record)
                last = record
            elif isinstance(record, Beginning):
                self._recording.about(threads=record.threads)
            elif isinstance(record, Remark):
                self._remark(record)
            self._ended |= isinstance(record, Ending)
            self._writer.add(record)
        if last is not None and self._first is not None:
            share = self._training.share(self._clean, self._first, last)
            stage = "training" if share < 0.99 else "tracing"
            self._tell(Progress(stage=stage, share=share, steps=self.steps, loss=last.loss))
        if self._diverged and not self._ended:
            with suppress(ConnectionLostError):  # the next answer asks again
                self._job.signal("TERM")

    def _check(self, step: Step) -> None:
        if step.index != self.steps:
            raise RecordingError(
                f"--target adb: the runner's journal is garbled: step {step.index} after {self.steps} steps",
                id="garbled-runner-journal",
            )
        check_loss(ENGINE, self._training.folder.training, step.index, step.loss)
        warmup = self._training.settings.warmup
        traced = step.opened_ns is not None
        if step.index >= warmup:
            self._first = self._first or step
            self._clean += not (traced or self._after_traced)
        self._after_traced = traced
        self.steps += 1
        self._lost = 0 if abs(step.loss) <= MOST_NUMBER else self._lost + 1  # NaN is not, either
        if self._lost == LOST:
            self._diverged = True
            self._recording.note(diverged_note(self.steps - LOST))

    def _remark(self, remark: Remark) -> None:
        note = {
            "least": f"measuring ended after {remark.number} clean steps, not "
            f"{self._training.settings.least_steps}: so many would have taken too long",
            "windows": f"traced steps: {remark.number}, not {WANTED}: more would have taken too long",
            "reset": "the high-water mark of memory could not be reset: the peak covers the process's whole life, "
            "tracing included",
        }.get(remark.what)
        if note is not None:
            self._recording.note(note)

    def failure(self, code: int) -> str | None:
        """Why the runner ended before it was done, or None."""
        if self._ended and (code == 0 or self._diverged):
            return None
        how = ending_words(128 - code if code > 128 else code)
        said = next((w for w in reversed(self._last_words) if w.startswith("runner: ")), "")
        why = said.removeprefix("runner: ") or (self._last_words[-1] if self._last_words else "")
        if FULL in self._signs:
            why = self.storage_full
        words = [f"{PROGRAM} {how} on the phone" + (f": {plain(why)}" if why else "")]
        if code - 128 in _ENDINGS:
            words.append(_ENDINGS[signal.Signals(code - 128)])
        return "; ".join(words)

    def finish(self, code: int | None) -> None:
        """As `JobFollowing.finish`."""
        recording = self._recording
        self._release(everything=True)
        moment = self._sign(ENDED)
        try:
            if recording.problem is None:
                self._writer.end(None if moment is None else moment.host_ns)
        except OSError as error:
            recording.fail(f"the run cannot be written ({error.strerror})")
        if moment is None:
            recording.lost("command")
        clock = self._writer.clock
        if self._writer.steps:
            recording.note(
                "steps and operations are stamped on the phone by its monotonic clock: within "
                f"±{clock.uncertainty_ns / 1e6:.1f} ms of the samples"
            )
        if clock.slept_ns:
            recording.note(
                f"the phone slept for {clock.slept_ns / 1e9:.1f} s meanwhile: a step in which it did is longer by that"
            )
        if self._writer.unplaced:
            recording.note(
                f"{self._writer.unplaced} steps are left out: nothing tells when they were on this computer's clock"
            )
        for text in (NO_CANARY, *self._remarks()):
            recording.note(text)
        self._note_outages()

    def _remarks(self) -> tuple[str, ...]:
        exported = self._training.folder.training
        return (*exported.rewrites, *exported.notes)


class RunWriter:
    """Writes the runner's records as marks and operations of a run, once their place on our clock is known.

    Args:
        recording: The run.
        training: What trains.

    Attributes:
        clock: The runner's.
        steps: Number of steps written.
        unplaced: Steps that nothing places.
    """

    def __init__(self, recording: PhoneRecording, training: PhoneTraining) -> None:
        self.clock = RunnerClock(recording.clock)
        self.steps = self.unplaced = 0
        self._recording, self._marks = recording, recording.marks
        self._samples = float(training.samples)
        self._graph = read_operations(training.folder.file(OPERATIONS))
        self._told: list[tuple[str, str, float, str]] = []
        self._kinds: list[Operation] = []
        self._pending: deque[Step | Memory] = deque()
        self._windows = 0
        self._window_open = False
        self._last_ns = recording.began_ns

    def add(self, record: Record) -> None:
        """Takes in a record; steps and memory wait until they can be placed."""
        if isinstance(record, ClockStamp):
            self.clock.add(record)
        elif isinstance(record, Name):
            self._told.append(record.told)
        elif isinstance(record, (Step, Memory)):
            self._pending.append(record)

    def release(self, *, everything: bool = False) -> None:
        """Writes what can be placed; at the end all of it.

        Raises:
            OSError: The disk is full.
        """
        self.clock.look(everything=everything)
        if everything and not self.clock.known:
            self.unplaced += sum(isinstance(record, Step) for record in self._pending)
            self._pending.clear()
        while self._pending and (everything or self.clock.reaches(_end_ns(self._pending[0]))):
            record = self._pending.popleft()
            if isinstance(record, Step):
                self._step(record)
            else:
                self._memory(record)

    def end(self, t_ns: int | None) -> None:
        """What comes after the last step is none of it.

        Args:
            t_ns: When the runner ended, on our clock; None: that is not known.

        Raises:
            OSError: The disk is full.
        """
        if self.steps and t_ns is not None:
            self._rest("after the last step", self._last_ns, t_ns)

    def _step(self, step: Step) -> None:
        place, marks = self.clock.map, self._marks
        begin, run, end = (place(t) for t in (step.begin_ns, step.run_ns, step.end_ns))
        if self.steps == 0:
            self._rest("before the first step", self._last_ns, begin)
        traced = step.opened_ns is not None
        if step.opened_ns is not None:
            marks.add(Mark.WINDOW_START, t_ns=place(step.opened_ns))
            self._window_open = True
        marks.add(Mark.STEP_START, int(traced), self._samples, step.index, step.cpu_ns[0], begin)
        marks.add(Mark.PHASE, marks.code("phase", "data"), t_ns=begin)
        marks.add(Mark.PHASE, marks.code("phase", JOINT), t_ns=run)
        marks.add(Mark.STEP_END, 0, step.loss, step.index, step.cpu_ns[1], end)
        if traced:
            self._operations(step)
        self.steps += 1
        self._last_ns = end

    def _operations(self, step: Step) -> None:
        """Writes the operations of a traced step; what runs is the same in each.

        Raises:
            OSError: The disk is full.
        """
        if not self._kinds:
            self._kinds = describe(self._told, self._graph)
        if len(self._kinds) != len(step.operations):
            self._recording.note(
                f"the operations of step {step.index} are left out: the phone told {len(step.operations)} of "
                f"{len(self._kinds)}"
            )
        else:
            place, code = self.clock.map, self._marks.code
            rows = []
            for each, (begin, end) in zip(self._kinds, step.operations, strict=True):
                described = (
                    code("operation", each.name), code("kind", each.kind), code("shapes", each.shapes),
                )  # fmt: skip
                placed = place(begin), place(end)
                values = operation_fields(code, described, each, step.index, self._windows, placed)
                rows.append(OPERATION.pack(*values))
            self._recording.add_operations(b"".join(rows))
        self._windows += 1

    def _memory(self, memory: Memory) -> None:
        kind, code = _MEMORY.get(memory.kind, (None, 0))
        if kind is None:
            return
        t_ns = self.clock.map(memory.at_ns)
        if memory.kind == "after" and self._window_open:
            self._marks.add(Mark.WINDOW_END, t_ns=t_ns)
            self._window_open = False
        self._marks.add(kind, code, float(memory.size), t_ns=t_ns)

    def _rest(self, name: str, start_ns: int, end_ns: int) -> None:
        if end_ns > start_ns:
            code = self._marks.code("rest", name)
            self._marks.add(Mark.REST_START, code, t_ns=start_ns)
            self._marks.add(Mark.REST_END, code, t_ns=end_ns)


def _end_ns(record: Step | Memory) -> int:
    return record.end_ns if isinstance(record, Step) else record.at_ns
