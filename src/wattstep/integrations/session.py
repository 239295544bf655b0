"""Session of somebody's trainer under a recorder: begins and closes the run, and never harms the training."""

from __future__ import annotations

import atexit
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wattstep import engines
from wattstep.errors import InvalidValueError, RecordingError
from wattstep.integrations.live import Live
from wattstep.integrations.loggers import Destination, open_destination, write_figures
from wattstep.integrations.steps import StepMarks
from wattstep.record.recorder import Recorder, RecordingWarning
from wattstep.record.tracing.schedule import TraceMode
from wattstep.run import load
from wattstep.schema.settings import parse_interval, parse_keep, parse_power_model
from wattstep.schema.training_hooks import TrainingHooks
from wattstep.store.files import new_name
from wattstep.train.environment import canary, check_target
from wattstep.train.environment.crowding import as_note, crowded_default, others_beside

DISCOVERY_STEPS = 3  # during these the networks of a training are looked for


@dataclass(frozen=True, kw_only=True)
class CallbackSettings:
    """Settings of a callback.

    Attributes:
        folder: In which each training makes a run of its own.
        interval: The sampler's period.
        keep: As `Recorder` takes it.
        trace: "auto", "none" or "every:N".
        warmup: First steps that do not count.
        power_model: For machines without a power sensor; what it gives is marked as modelled.
        target: Where the sensors are.
        log: True if figures go to the loggers that the trainer has.
        log_every: Steps between power and energy so far in those loggers; None for none.
        progress: True if the progress line shows joules and battery.
        report: True if the loggers get the HTML report.
        strict: True if a recording that fails ends the training.
    """

    folder: str | Path = "runs"
    interval: str | float = "10ms"
    keep: str | None = None
    trace: str = "auto"
    warmup: int = 3
    power_model: str | None = None
    target: str | None = None
    log: bool = True
    log_every: int | None = None
    progress: bool = True
    report: bool = False
    strict: bool = False

    def __post_init__(self) -> None:
        parse_interval(self.interval)
        parse_keep(self.keep)
        TraceMode.parse(self.trace)
        parse_power_model(self.power_model)
        check_target(self.target)
        if self.warmup < 0:
            raise InvalidValueError(f"warmup={self.warmup}: it cannot be negative")
        if self.log_every is not None and self.log_every < 1:
            raise InvalidValueError(f"log_every={self.log_every}: it must be 1 or more")


@dataclass(frozen=True, kw_only=True)
class Beginning:
    """Facts that a trainer gives when a training begins.

    Attributes:
        name: Of the model's class.
        model: The torch module.
        batch_size: Of one forward pass, or None.
        accumulate: Batches of a step.
        first_step: Number of its first step.
        total_steps: Number of steps from there on, or None where nobody knows.
        processes: Number of those that train on this machine.
        trainer: Library with its version.
        loggers: Loggers of the trainer, as `log_run` takes them.
    """

    name: str
    model: Any
    batch_size: int | None
    accumulate: int
    first_step: int
    total_steps: int | None
    processes: int
    trainer: str
    loggers: Sequence[Any] = ()


class Session:
    """The recording of one training.

    Every event goes through `guard`: unless `strict`, an error of the recording is said once, as a
    warning, and the training goes on without it.

    Attributes:
        marks: Steps and phases of the loop.
        live: Costs so far.
        path: The run; None where it could not begin.
        open: True if it is being recorded.
    """

    marks: StepMarks
    live: Live

    def __init__(self, settings: CallbackSettings) -> None:
        self._settings = settings
        self._recorder: Recorder | None = None
        self._destinations: list[Destination] = []
        self._undo: list[Callable[[], None]] = []
        self._hooks: TrainingHooks | None = None
        self._steps = 0
        self.path: Path | None = None
        self.open = False

    def begin(self, beginning: Beginning) -> None:
        """Starts a recorder in a new folder."""
        self.guard(lambda: self._begin(beginning))

    def guard(self, work: Callable[[], object]) -> None:
        """Does a part of the recording.

        Raises:
            Exception: Whatever it raises, where the settings are strict.
        """
        try:
            work()
        except Exception as error:  # the training is the user's: see `strict`
            if self._settings.strict:
                self.end()
                raise
            self._give_up(f"{type(error).__name__}: {error}")

    def wrap(self, owner: Any, name: str, wrapper: Callable[[Any], Any]) -> None:
        """Puts something around a method of one object, until the training ends."""
        plain = getattr(owner, name)
        before = vars(owner).get(name)
        setattr(owner, name, wrapper(plain))

        def undo() -> None:
            if before is None:
                vars(owner).pop(name, None)
            else:
                setattr(owner, name, before)

        self._undo.append(undo)

    def step_ends(self, step: int, *, mean: bool = False) -> None:
        """The optimizer's step with this number is done; see `StepMarks.step_ends`."""
        self.marks.step_ends(mean=mean)
        self._steps += 1
        if self._hooks is not None:
            self._hooks.step_begins()
            self._hooks.discover(self._steps < DISCOVERY_STEPS)
        recorder = self._recorder
        if recorder is not None and recorder.problem is not None and self._settings.strict:
            raise RecordingError(recorder.problem)
        every = self._settings.log_every
        due = every is not None and self._settings.log and step % every == 0
        if recorder is not None and (due or self.live.due()):
            self.live.look(recorder.steps.index, self.marks.seconds)
        if due:
            values = self.live.numbers()
            for each in self._destinations if values else ():
                each.numbers(values, step)

    def note(self, text: str) -> None:
        """Something that the reader of the run must know."""
        if self._recorder is not None:
            self._recorder.note(text)

    def failed(self, error: BaseException) -> None:
        """The training ends with an error: the run says which, and is closed."""
        if self.open:
            self.note(f"the training ended with {type(error).__name__}")
        self.end(log=False)

    def end(self, *, log: bool = True) -> None:
        """Takes out what was put in, closes the run, and logs its figures; once."""
        while self._undo:
            self._undo.pop()()
        if not self.open:
            return
        self.open = False
        atexit.unregister(self._at_exit)
        self.guard(lambda: self._close(log))

    # --- parts ------------------------------------------------------------------------------

    def _begin(self, beginning: Beginning) -> None:
        settings = self._settings
        self._destinations = [open_destination(each) for each in beginning.loggers]
        crowded = _crowded(beginning)
        if crowded is not None:
            warnings.warn(f"wattstep: {crowded}", RecordingWarning, stacklevel=2)
        path = Path(settings.folder) / new_name(beginning.name)
        recorder = Recorder(
            path,
            interval=settings.interval,
            keep=settings.keep,
            trace=settings.trace,
            warmup=settings.warmup,
            model=beginning.model,
            power_model=settings.power_model,
            target=settings.target,
            first_step=beginning.first_step,
            total_steps=beginning.total_steps,
            about=_about(beginning),
        ).start()
        self._recorder, self.path, self.open = recorder, path.absolute(), True
        if crowded is not None:
            recorder.note(as_note(crowded))
        canary.watch_briefly(recorder, canary.BEFORE)
        self.marks = StepMarks(recorder, beginning.processes)
        self.live = Live(recorder)
        engine = engines.loaded()
        self._hooks = None if engine is None else engine.follow(self.marks)
        if self._hooks is not None:
            self._undo.append(self._hooks.remove)
        if beginning.processes > 1:
            recorder.note(_PROCESSES.format(beginning.processes))
        atexit.register(self._at_exit)

    def _at_exit(self) -> None:
        """The interpreter ends, and nobody has said that the training did."""
        self.note("the training did not come to its end")
        self.end(log=False)

    def _close(self, whole: bool) -> None:
        """Closes the run; the canary and the figures are for a training that came to its end."""
        recorder = self._recorder
        assert recorder is not None
        self.marks.span_ends()
        if self.marks.interrupted:
            recorder.note(_INTERRUPTED.format(self.marks.interrupted))
        if whole:
            canary.watch_briefly(recorder, canary.AFTER)
        recorder.close()
        if recorder.problem is not None and self._settings.strict:
            raise RecordingError(recorder.problem)
        if whole and self._settings.log and self._destinations and self.path is not None:
            report, run = self._settings.report, load(self.path)
            write_figures(run, self._destinations, step=recorder.steps.index, report=report)

    def _give_up(self, why: str) -> None:
        recorder, self._recorder = self._recorder, None
        while self._undo:
            self._undo.pop()()
        was_open, self.open = self.open, False
        atexit.unregister(self._at_exit)
        warnings.warn(
            f"wattstep records no further: {why}; the training goes on (strict=True would end it)",
            RecordingWarning,
            stacklevel=2,
        )
        if recorder is not None and was_open:
            recorder.note(f"recording ended early: {why.partition(':')[0]}")
            recorder.close()


def _crowded(beginning: Beginning) -> str | None:
    """Warning where the threads of the training will wait for cores that others use; None: they do not."""
    engine = engines.loaded()
    threads = None if engine is None or beginning.processes > 1 else engine.threads()
    return crowded_default(threads, others_beside()) if (threads or 1) > 1 else None


_PROCESSES = (
    "one of {} training processes of this machine was recorded: energy and power are the machine's, "
    "samples are counted for all of them, processor time and memory are this process's own"
)
_INTERRUPTED = (
    "{} steps are left out: something else (an evaluation, a checkpoint) ran between their batches"
)


def _about(beginning: Beginning) -> Mapping[str, Any]:
    return {
        "workload": beginning.name,
        "batch_size": beginning.batch_size,
        "options": {"accumulate": beginning.accumulate, "trainer": beginning.trainer},
    }


def tell(session: Session | None, work: Callable[[Session], object]) -> None:
    """Does a part of the recording, guarded, while there is one."""
    if session is not None and session.open:
        session.guard(lambda: work(session))
