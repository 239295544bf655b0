"""The loop that trains a workload on an engine under a recorder; every command and sweep uses this one."""

from __future__ import annotations

import json
import math
import os
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from wattstep import engines, workloads
from wattstep.errors import InvalidValueError, WattstepError
from wattstep.recorder import Recorder
from wattstep.records.settings import parse_interval, parse_power_model
from wattstep.store.files import new_name
from wattstep.tracing.schedule import LEAST_CLEAN, WANTED, TraceMode

LEAST_STEPS = 20  # clean steps of a run that is limited by time
DEFAULT_SECONDS = 15.0
REPORT_NS = 100_000_000


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """What a run is asked to be; see the options of `wattstep run`.

    Attributes:
        steps: Measured steps after the warm-up, traced ones not counted; None: as `seconds` say.
        seconds: Measured time, at least 20 steps; 15 where neither is given.
        out: Folder of the run, or None for a new one below `runs/`.
    """

    workload: str
    batch_size: int = 4
    steps: int | None = None
    seconds: float | None = None
    warmup: int = 3
    threads: int | None = None
    engine: str = "torch"
    processor: str = "cpu"
    interval: str = "10ms"
    trace: str = "auto"
    seed: int = 0
    data_dir: str | None = None
    out: str | None = None
    power_model: str | None = None

    def __post_init__(self) -> None:
        for name, value in (("batch", self.batch_size), ("threads", self.threads)):
            if value is not None and value < 1:
                raise InvalidValueError(f"--{name} {value}: it must be at least 1")
        if self.steps is not None and self.steps < 1:
            raise InvalidValueError(f"--steps {self.steps}: it must be at least 1")
        if self.seconds is not None and not 0 < self.seconds < math.inf:
            raise InvalidValueError(f"--seconds {self.seconds:g}: it must be above 0")
        if self.warmup < 0:
            raise InvalidValueError(f"--warmup {self.warmup}: it cannot be negative")
        if self.data_dir is not None and not Path(self.data_dir).is_dir():
            raise InvalidValueError(f"--data {self.data_dir}: there is no such folder")
        engines.check_name(self.engine)
        TraceMode.parse(self.trace)
        parse_power_model(self.power_model)
        parse_interval(self.interval)

    @property
    def trace_mode(self) -> str:
        """A run of few steps spreads its traced ones over them; the schedule does the rest."""
        if self.trace != "auto" or self.steps is None or self.steps > 100 * WANTED:
            return self.trace
        return f"every:{max(LEAST_CLEAN, self.steps // WANTED)}"


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Where a run is.

    Attributes:
        stage: "preparing", "training", "tracing" (the last traced steps) or "writing".
        share: Of the run that is done, from 0 to 1.
        steps: Steps done.
        loss: Of the last step.
    """

    stage: str
    share: float = 0.0
    steps: int = 0
    loss: float | None = None


def train(settings: TrainingSettings, report: Callable[[Progress], None]) -> Recorder:
    """Trains and records.

    Returns:
        The recorder, closed; its `path` is the run, its `problem` says why it ended early.

    Raises:
        WattstepError: A setting cannot be used, a part is missing, or recording cannot begin.
    """
    report(Progress(stage="preparing"))
    workload = workloads.find(settings.workload)
    engine = engines.find(settings.engine)(
        workload,
        batch_size=settings.batch_size,
        threads=settings.threads,
        processor=settings.processor,
        seed=settings.seed,
        data_dir=None if settings.data_dir is None else Path(settings.data_dir),
    )
    recorder = Recorder(
        settings.out or Path("runs") / new_name(settings.workload),
        interval=settings.interval,
        trace=settings.trace_mode,
        warmup=settings.warmup,
        model=engine.training.model,
        power_model=settings.power_model,
        about={
            "workload": workload.facts.name,
            "title": workload.facts.title,
            "engine": engine.version,
            "batch_size": settings.batch_size,
            "threads": engine.threads,
            "precision": "fp32",
            "processor": settings.processor,
            "seed": settings.seed,
            "data": engine.training.data,
            "model": engine.model_facts(),
        },
    )
    with recorder:
        _Loop(settings, engine, recorder, report).run()
        report(Progress(stage="writing", share=1.0, steps=recorder.index))
    return recorder


class _Loop:
    """Steps until the run has what it was asked for."""

    def __init__(
        self,
        settings: TrainingSettings,
        engine: Any,
        recorder: Recorder,
        report: Callable[[Progress], None],
    ) -> None:
        self._settings = settings
        self._engine = engine
        self._recorder = recorder
        self._report = report
        self._reported = 0
        self._begun = 0
        self._clean = 0  # steps that count
        self._settling = False
        self._diverged = False

    def run(self) -> None:
        recorder, settings = self._recorder, self._settings
        for _ in range(settings.warmup):
            self._step("training", 0.0)
        self._clean = 0
        self._begun = time.perf_counter_ns()
        share = 0.0
        while share < 1 and recorder.problem is None:
            self._step("training", share)
            share = self._share()
        wanted = WANTED if TraceMode.parse(settings.trace).tracing else 0
        # A run that was too short for its traced steps gets them now, with clean ones between.
        for _ in range(max(wanted - recorder.windows, 0)):
            for _ in range(LEAST_CLEAN):
                self._step("tracing", recorder.windows / wanted)
            recorder.trace_next()
            self._step("tracing", recorder.windows / wanted)
        # The optimizer's state exists only after its first step.
        for category, size in self._engine.memory().items():
            recorder.memory(category, size)

    def _share(self) -> float:
        """Of the run that is done."""
        if self._settings.steps is not None:
            return self._clean / self._settings.steps
        seconds = self._settings.seconds or DEFAULT_SECONDS
        elapsed = (time.perf_counter_ns() - self._begun) * 1e-9
        return min(elapsed / seconds, self._clean / LEAST_STEPS)

    def _step(self, stage: str, share: float) -> None:
        recorder = self._recorder
        windows = recorder.windows
        with recorder.step(samples=self._settings.batch_size) as step:
            step.loss = self._engine.step(recorder.phase)
        traced = recorder.windows > windows
        self._clean += not (traced or self._settling)
        self._settling = traced  # the step after a traced one finds back to its habits
        if not math.isfinite(step.loss) and not self._diverged:
            self._diverged = True
            recorder.note(
                f"the loss is not a finite number from step {recorder.index - 1} on: "
                "what was timed is not a training that works"
            )
        now = time.perf_counter_ns()
        if now - self._reported > REPORT_NS:
            self._reported = now
            self._report(Progress(stage=stage, share=share, steps=recorder.index, loss=step.loss))


def main() -> int:
    """Entry of the child process that trains: settings as JSON, news as JSON lines on fd 3+."""
    news = os.fdopen(int(sys.argv[1]), "w", encoding="utf-8", buffering=1)

    def say(document: dict[str, Any]) -> None:
        news.write(json.dumps(document) + "\n")

    def warn(message: Warning | str, *_: Any, **__: Any) -> None:
        say({"warning": str(message)})

    warnings.showwarning = warn
    try:
        settings = TrainingSettings(**json.loads(sys.argv[2]))
        recorder = train(settings, lambda progress: say({"progress": asdict(progress)}))
    except WattstepError as error:
        say({"error": str(error)})
        return 2
    except KeyboardInterrupt:
        return 130
    except MemoryError as error:
        say({"error": f"memory ran out: {error or 'try a smaller batch'}"})
        return 2
    except RuntimeError as error:
        if "alloc" not in str(error) and "memory" not in str(error):
            raise  # a mistake of ours, with its traceback
        say({"error": f"memory ran out: {str(error).splitlines()[0]}"})
        return 2
    say({"run": str(recorder.path), "problem": recorder.problem})
    return 0
