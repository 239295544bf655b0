"""The loop that trains a workload on an engine under a recorder; every command and sweep uses this one."""

from __future__ import annotations

import errno
import json
import math
import os
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from wattstep import engines, workloads
from wattstep.conditions import (
    AMBIENT_UNKNOWN,
    COLDEST_C,
    FAN_UNKNOWN,
    HOTTEST_C,
    add_conditions,
    canary,
    check_target,
    surroundings,
)
from wattstep.conditions.ahead import Ahead
from wattstep.conditions.crowding import Crowding, too_many_threads
from wattstep.conditions.sustaining import MOST_S as SUSTAIN_SECONDS
from wattstep.conditions.sustaining import Sustaining
from wattstep.conditions.waiting import AFTER, BEFORE, stay_idle, wait_until_steady
from wattstep.errors import InvalidValueError, RecordingError, WattstepError
from wattstep.footprint.step import track_step
from wattstep.foreground import measure_foreground
from wattstep.pursuit import Pursuit
from wattstep.recorder import Recorder
from wattstep.records.goal import Goal
from wattstep.records.memory_words import ran_out
from wattstep.records.settings import parse_duration, parse_interval, parse_power_model
from wattstep.records.workload import PRECISIONS, RATE_RULES, Preparation, WorkloadFacts
from wattstep.store.files import new_name
from wattstep.targets import PLACES, parse_target
from wattstep.tracing.schedule import LEAST_CLEAN, WANTED, TraceMode

LEAST_STEPS = 20  # clean steps of a run that is limited by time
DEFAULT_SECONDS = 15.0
MOST_TIMES = 3.0  # what was asked for: then a run ends, however few of its least steps are done
FEWEST_STEPS = 3  # but for these
BESIDE_S = 10.0  # for what comes after the measured steps, or as long as those took
MEMORY_STEPS = 20  # what following the memory of a step may take, in steps
# How long a run with a goal may take, where neither steps nor seconds are given.
GOAL_SECONDS = 3600.0
REPORT_NS = 100_000_000
FORETELL_AT = 0.2  # share of the run from which on what is said to be left is kept in its record
EXCLUDABLE = ("throttled", "disturbed")


_AT_LEAST_ONE = (
    "batch_size", "threads", "steps", "least_steps", "accumulate", "classes", "image_size",
    "evaluate_every",
)  # fmt: skip


def _option(name: str) -> str:
    """As the command line spells it."""
    return "batch" if name == "batch_size" else name.replace("_", "-")


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """What a run is asked to be; see the options of `wattstep run`.

    Attributes:
        batch_size: Samples of one forward pass; a step takes `accumulate` times as many.
        steps: Measured steps after the warm-up, traced ones not counted; None: as `seconds` say.
        seconds: Measured time, at least `least_steps` steps; 15 where neither is given.
        least_steps: See `seconds`.
        precision: "fp32", "bf16" or "amp".
        classes: None for the workload's own.
        image_size: None for the workload's own.
        rate_rule: How the learning rate follows the batch; see `Preparation`.
        until: A goal as in `Goal.parse`; steps or seconds are then the most that it may take.
        evaluate_every: Steps between evaluations on the way to the goal; None: as many as keep
            evaluations to a fifth of the time.
        out: Folder of the run, or None for a new one below `runs/`.
        idle: How long the machine is left idle before the first step and after the last, e.g.
            "30s", so that its power at rest is known; None: not at all.
        subtract_idle: Which of the two is taken off the energy: "before", "after"; None: neither.
        exclude: Which clean steps the figures leave out: "throttled", "disturbed", or both with a
            comma between; None: none.
        stable: Wait before the first step until temperature and frequency are steady.
        sustain: Train until temperature, frequency and throughput are steady; `steps` or `seconds`
            are then the most that it may take, 75 minutes where neither is given.
        ambient: Ambient temperature in °C, where the user knows it.
        fan: What cools the device, in the user's words, where no sensor tells.
        cooled: What became of the cool-down before the run (seconds, temperature, note).
        target: Where the sensors are, as `Recorder` takes it; or, for a `fleet.places.Place`, the
            device that trains.
        calibration: Of this machine's power sensors, as `wattstep calibrate` writes it, or None.
        foreground: Seconds of a foreground job alone, of training alone and of both, after the
            recorded steps; None: none.
        nice: Of the training beside that job.
        canary: Whether a small fixed piece of work before and after the training tells how fast the
            machine itself is.
    """

    workload: str
    batch_size: int = 4
    steps: int | None = None
    seconds: float | None = None
    least_steps: int = LEAST_STEPS
    warmup: int = 3
    threads: int | None = None
    engine: str = "torch"
    processor: str = "cpu"
    precision: str = "fp32"
    accumulate: int = 1
    classes: int | None = None
    image_size: int | None = None
    rate_rule: str = "linear"
    until: str | None = None
    evaluate_every: int | None = None
    interval: str = "10ms"
    trace: str = "auto"
    seed: int = 0
    data_dir: str | None = None
    out: str | None = None
    power_model: str | None = None
    target: str | None = None
    idle: str | None = None
    subtract_idle: str | None = None
    exclude: str | None = None
    stable: bool = False
    sustain: bool = False
    ambient: float | None = None
    fan: str | None = None
    cooled: Mapping[str, Any] | None = None
    calibration: Mapping[str, Any] | None = None
    foreground: float | None = None
    nice: int = 0
    canary: bool = False

    def __post_init__(self) -> None:
        for name in _AT_LEAST_ONE:
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InvalidValueError(f"--{_option(name)} {value}: it must be at least 1")
        for name, known in (("precision", PRECISIONS), ("rate_rule", RATE_RULES)):
            if getattr(self, name) not in known:
                raise InvalidValueError(
                    f"--{_option(name)} {getattr(self, name)}: there are {', '.join(known)}"
                )
        if self.seconds is not None and not 0 < self.seconds < math.inf:
            raise InvalidValueError(f"--seconds {self.seconds:g}: it must be above 0")
        if self.foreground is not None and not 0 < self.foreground < math.inf:
            raise InvalidValueError(f"--foreground-seconds {self.foreground:g}: it must be above 0")
        if not 0 <= self.nice <= 19:
            raise InvalidValueError(f"--nice {self.nice}: it lies between 0 and 19")
        if self.nice and self.foreground is None:
            raise InvalidValueError("--nice is for the training beside a job: give --foreground")
        if self.warmup < 0:
            raise InvalidValueError(f"--warmup {self.warmup}: it cannot be negative")
        if self.processor != "cpu":
            raise InvalidValueError(
                f"--processor {self.processor}: torch trains on cpu in this version"
            )
        away = parse_target(self.target).scheme in PLACES
        if not (away or self.data_dir is None or Path(self.data_dir).is_dir()):
            raise InvalidValueError(f"--data {self.data_dir}: there is no such folder")
        if self.until is not None:
            Goal.parse(self.until)
        engines.check_name(self.engine)
        TraceMode.parse(self.trace)
        parse_power_model(self.power_model)
        if not away:  # what is there is seen there
            check_target(self.target, self.ambient)
        if self.calibration is not None and not away and self.target not in (None, "local"):
            raise InvalidValueError("--calibration is of this machine's sensors: without --target")
        self._check_conditions()
        parse_interval(self.interval)

    def _check_conditions(self) -> None:
        if self.idle is not None:
            parse_duration(self.idle)
        if self.subtract_idle not in (None, "before", "after"):
            raise InvalidValueError(f"--subtract-idle {self.subtract_idle}: before or after")
        if self.subtract_idle is not None and self.idle is None:
            raise InvalidValueError("--subtract-idle takes off what --idle measures: give --idle")
        for kind in self.excluded:
            if kind not in EXCLUDABLE:
                known = ", ".join(EXCLUDABLE)
                raise InvalidValueError(f"--exclude {self.exclude}: there are {known}")
        if self.ambient is not None and not COLDEST_C <= self.ambient <= HOTTEST_C:
            raise InvalidValueError(
                f"--ambient {self.ambient:g}: it lies between {COLDEST_C:g} and {HOTTEST_C:g} °C"
            )
        if self.sustain and self.until is not None:
            raise InvalidValueError("--sustain and --until: a run ends for one reason, choose one")

    @property
    def excluded(self) -> tuple[str, ...]:
        """Which kinds of steps the figures leave out."""
        if self.exclude is None:
            return ()
        return tuple(dict.fromkeys(kind.strip() for kind in self.exclude.split(",")))

    @property
    def preparation(self) -> Preparation:
        """What the workload is built from."""
        return Preparation(
            batch_size=self.batch_size,
            accumulate=self.accumulate,
            seed=self.seed,
            data_dir=None if self.data_dir is None else Path(self.data_dir),
            classes=self.classes,
            image_size=self.image_size,
            rate_rule=self.rate_rule,
        )

    @property
    def asked(self) -> dict[str, Any]:
        """When it will end, as `RunInfo.asked` has it; empty where that is not known before."""
        if self.until is not None or self.sustain:  # either may end it at any time
            return {}
        if self.steps is not None:
            return {"clean_steps": self.steps}
        return {"seconds": self.seconds or DEFAULT_SECONDS, "least_steps": self.least_steps}

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
        stage: "preparing", "waiting until steady", "idle before", "training", "tracing" (the last
            traced steps), "idle after", "following memory", "foreground" or "writing".
        share: Of the run that is done, from 0 to 1.
        steps: Steps done.
        loss: Of the last step.
        said: What else is known, in a few words.
        ahead: What is left, in a few words: time, joules, battery.
        unpowered: Why there are no joules among that; "" where there are, or nothing is left.
    """

    stage: str
    share: float = 0.0
    steps: int = 0
    loss: float | None = None
    said: str = ""
    ahead: str = ""
    unpowered: str = ""


def train(
    settings: TrainingSettings,
    report: Callable[[Progress], None],
    warn: Callable[[str], None] = lambda text: None,
) -> Recorder:
    """Trains and records.

    Args:
        settings: What is asked for.
        report: Told where it is.
        warn: Told at once what will make the training slow.

    Returns:
        The recorder, closed; its `path` is the run, its `problem` says why it ended early.

    Raises:
        WattstepError: A setting cannot be used, a part is missing, or recording cannot begin.
    """
    report(Progress(stage="preparing"))
    crowding = Crowding()
    workload = workloads.find(settings.workload)
    engine = engines.find(settings.engine)(
        workload,
        settings.preparation,
        threads=settings.threads,
        processor=settings.processor,
        precision=settings.precision,
    )
    crowded = None
    if settings.threads is None:
        cores = len(os.sched_getaffinity(0))
        crowded = too_many_threads(engine.threads, cores, crowding.others())
    if crowded is not None:
        warn(crowded)
    pursuit = None
    if settings.until is not None:
        goal = Goal.parse(settings.until)
        pursuit = Pursuit(goal, engine, every=settings.evaluate_every)
    recorder = Recorder(
        settings.out or Path("runs") / new_name(settings.workload),
        interval=settings.interval,
        trace=settings.trace_mode,
        warmup=settings.warmup,
        model=engine.training.model,
        power_model=settings.power_model,
        target=settings.target,
        about=_describe(settings, workload.facts, engine),
    )
    if crowded is not None:
        recorder.note(crowded)
    with recorder:
        _surround(settings, recorder, report)
        _Loop(settings, engine, recorder, report, pursuit).run()
        report(Progress(stage="writing", share=1.0, steps=recorder.index))
    return recorder


def _surround(
    settings: TrainingSettings, recorder: Recorder, report: Callable[[Progress], None]
) -> None:
    """What is known of the surroundings, and the waits before the first step."""
    found = surroundings(recorder.info.reads, settings.ambient, settings.target)
    if "ambient" not in found and (settings.stable or settings.sustain):
        recorder.note(AMBIENT_UNKNOWN)
    if settings.fan is not None:
        found.setdefault("fan", {"words": settings.fan, "source": "given by the user"})
    if "fan" not in found and (settings.stable or settings.sustain):
        recorder.note(FAN_UNKNOWN)
    add_conditions(recorder, **found)
    if settings.stable:
        steady = wait_until_steady(
            recorder, lambda share: report(Progress(stage="waiting until steady", share=share))
        )
        add_conditions(recorder, stable=steady)
    _stay_idle(settings, recorder, report, BEFORE)
    if settings.canary:
        canary.watch(recorder, canary.BEFORE)


def _stay_idle(
    settings: TrainingSettings, recorder: Recorder, report: Callable[[Progress], None], name: str
) -> None:
    """Where that is asked for: nothing runs, and the machine's power at rest is sampled."""
    if settings.idle is None:
        return
    stage, steps = name.replace("_", " "), recorder.index
    stay_idle(
        recorder,
        name,
        parse_duration(settings.idle),
        lambda share: report(Progress(stage=stage, share=share, steps=steps)),
    )


def _describe(settings: TrainingSettings, facts: WorkloadFacts, engine: Any) -> dict[str, Any]:
    """What the run is known by."""
    shape = {
        "classes": settings.classes or facts.classes,
        "image_size": settings.image_size or facts.image_size,
        "frames_per_step": getattr(engine.training, "frames_per_step", None),
        "until": settings.until,
        "subtract_idle": settings.subtract_idle,
        "exclude": list(settings.excluded) or None,
    }
    return {
        "workload": facts.name,
        "title": facts.title,
        "engine": engine.version,
        "batch_size": settings.batch_size,
        "threads": engine.threads,
        "precision": settings.precision,
        "processor": settings.processor,
        "seed": settings.seed,
        "data": engine.training.data,
        # What the sensors say of the surroundings is added when they are known.
        "conditions": {
            **surroundings((), settings.ambient, settings.target),
            **({} if settings.cooled is None else {"cooldown": dict(settings.cooled)}),
        },
        "calibration": settings.calibration,
        "model": engine.model_facts(),
        "asked": settings.asked,
        "options": {
            "accumulate": settings.accumulate,
            "rate_rule": settings.rate_rule,
            **{key: value for key, value in shape.items() if value is not None},
        },
    }


class _Loop:
    """Steps until the run has what it was asked for."""

    def __init__(
        self,
        settings: TrainingSettings,
        engine: Any,
        recorder: Recorder,
        report: Callable[[Progress], None],
        pursuit: Pursuit | None,
        clock: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._engine = engine
        self._recorder = recorder
        self._report = report
        self._samples = settings.batch_size * settings.accumulate
        self._reported = 0
        self._begun = 0
        self._clean = 0  # steps that count
        self._settling = False
        self._diverged = False
        self._pursuit = pursuit
        self._sustaining: Sustaining | None = None
        self._steady = False
        self._ahead = Ahead(recorder.path, recorder.info)
        self._foretold: dict[str, Any] = {}

    def run(self) -> None:
        recorder, settings = self._recorder, self._settings
        pursuit = self._pursuit
        if pursuit is not None:
            pursuit.begin(recorder)
        for _ in range(settings.warmup):
            self._step("training", 0.0)
        self._clean = 0
        self._begun = self._clock()
        self._ahead.begin()
        if settings.sustain:
            seconds = None if settings.steps is not None else settings.seconds or SUSTAIN_SECONDS
            self._sustaining = Sustaining(
                recorder, self._begun * 1e-9, most_s=seconds, most_steps=settings.steps
            )
        share = 0.0
        while share < 1 and recorder.problem is None:
            self._step("training", share)
            share = self._share()
            last = share >= 1
            self._look_ahead(share)
            if pursuit is not None and pursuit.ended(last=last, diverged=self._diverged):
                break
        if self._sustaining is not None:
            add_conditions(recorder, sustain=self._sustaining.found())
        self._keep_forecast()
        if recorder.problem is None:
            self._finish()

    def _finish(self) -> None:
        """Traced steps that a short run still lacks, and the sizes of what it holds.

        All of it is bounded in time: what does not fit is left out, and the run says so.
        """
        recorder, settings = self._recorder, self._settings
        took = self._clock() - self._begun
        step = took / max(self._clean, 1)
        until = self._clock() + max(took, BESIDE_S * 1e9)
        wanted = WANTED if TraceMode.parse(settings.trace).tracing else 0
        # A run that was too short for its traced steps gets them now, with clean ones between.
        for _ in range(max(wanted - recorder.windows, 0)):
            if self._clock() + (LEAST_CLEAN + 1) * step > until:
                recorder.note(
                    f"{recorder.windows} steps were traced, not {wanted}: more would have taken "
                    "longer than the measured steps themselves"
                )
                break
            for _ in range(LEAST_CLEAN):
                self._step("tracing", recorder.windows / wanted)
            recorder.trace_next()
            self._step("tracing", recorder.windows / wanted)
        if settings.canary and recorder.problem is None:
            canary.watch(recorder, canary.AFTER)
        _stay_idle(settings, recorder, self._report, AFTER)
        # The optimizer's state exists only after its first step.
        sizes = self._engine.memory()
        if wanted and recorder.problem is None:
            if self._clock() + MEMORY_STEPS * step > until:
                recorder.note(
                    "memory by category is not known: following a step's memory would have taken "
                    "longer than the measured steps themselves"
                )
            else:
                sizes.update(self._followed())
        for category, size in sizes.items():
            recorder.memory(category, size)
        if settings.foreground is not None and recorder.problem is None:
            self._report(Progress(stage="foreground", share=1.0, steps=recorder.index))
            measure_foreground(
                recorder, self._engine.step, seconds=settings.foreground, nice=settings.nice
            )

    def _followed(self) -> dict[str, int]:
        """One more step, beside the record, whose memory is followed operation by operation."""
        self._report(Progress(stage="following memory", share=1.0, steps=self._recorder.index))
        try:
            with self._recorder.apart("memory"):
                return track_step(self._engine)
        except RecordingError as error:
            self._recorder.note(f"memory by category is not known: {error}")
            return {}

    def _look_ahead(self, share: float) -> None:
        """Once a second what is left of the steps that were asked for, or of the time."""
        if share >= 1 or not self._ahead.due() or not self._knows_its_end:
            return
        if self._settings.steps is not None:
            self._ahead.look(steps=self._settings.steps - self._clean)
        else:
            elapsed = (time.perf_counter_ns() - self._begun) * 1e-9
            self._ahead.look(seconds=elapsed * (1 / share - 1) if share > 0 else 0.0)
        if not self._foretold and share >= FORETELL_AT and not self._ahead.time.missing:
            self._foretold = {"after_steps": self._clean, **self._ahead.document()}
            self._foretold_ns = time.perf_counter_ns()

    @property
    def _knows_its_end(self) -> bool:
        """A goal, or a steady state, may end it at any time."""
        return self._pursuit is None and not self._settings.sustain

    def _keep_forecast(self) -> None:
        """What was foretold goes into the run, with the time that it took in the end."""
        if self._foretold:
            came = (time.perf_counter_ns() - self._foretold_ns) * 1e-9
            add_conditions(self._recorder, forecast={**self._foretold, "time_came": round(came, 6)})

    def _share(self) -> float:
        """Of the run that is done."""
        if self._steady and self._clean >= self._settings.least_steps:
            return 1.0
        if self._settings.steps is not None:
            return self._clean / self._settings.steps
        default = DEFAULT_SECONDS if self._pursuit is None else GOAL_SECONDS
        default = default if self._sustaining is None else SUSTAIN_SECONDS
        seconds = self._settings.seconds or default
        elapsed = (self._clock() - self._begun) * 1e-9
        if elapsed > MOST_TIMES * seconds and self._clean >= FEWEST_STEPS:
            if self._clean < self._settings.least_steps:
                self._recorder.note(
                    f"{self._clean} steps count, not {self._settings.least_steps}: so many would have "
                    f"taken more than {MOST_TIMES:g} times the {seconds:g} s that were asked for"
                )
            return 1.0
        return min(elapsed / seconds, self._clean / self._settings.least_steps)

    def _step(self, stage: str, share: float) -> None:
        recorder = self._recorder
        windows, begin = recorder.windows, time.perf_counter_ns()
        with recorder.step(samples=self._samples) as step:
            step.loss = self._engine.step(recorder.phase)
        traced = recorder.windows > windows
        counts = not (traced or self._settling)
        self._clean += counts
        self._ahead.step(counts=counts)
        if self._sustaining is not None:
            self._sustain(begin, counts)
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
            said = "" if self._sustaining is None else self._sustaining.said
            training = stage == "training"
            self._report(
                Progress(
                    stage=stage, share=share, steps=recorder.index, loss=step.loss, said=said,
                    ahead=self._ahead.words() if training else "",
                    unpowered=self._ahead.unpowered if training and self._knows_its_end else "",
                )
            )  # fmt: skip

    def _sustain(self, begin_ns: int, counts: bool) -> None:
        """Tells what watches the training of a step that has just ended."""
        assert self._sustaining is not None
        now = time.perf_counter_ns()
        self._steady = self._sustaining.step(
            now * 1e-9, (now - begin_ns) * 1e-9, self._samples, counts=counts
        )


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
        recorder = train(
            settings,
            lambda progress: say({"progress": asdict(progress)}),
            lambda text: say({"warning": text}),
        )
    except WattstepError as error:
        say({"error": str(error), "kind": type(error).__name__})
        return 2
    except KeyboardInterrupt:
        return 130
    except (MemoryError, RuntimeError, ImportError, OSError) as error:
        said = (str(error).splitlines() or [""])[0]
        if ran_out(error):
            say({"error": f"memory ran out: {said or 'try a smaller batch'}"})
        elif isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            say({"error": f"the disk is full: {said}", "kind": RecordingError.__name__})
        else:
            raise  # a mistake of ours, with its traceback
        return 2
    say({"run": str(recorder.path), "problem": recorder.problem})
    return 0
