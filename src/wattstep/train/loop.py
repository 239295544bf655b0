"""The loop that trains a workload on an engine under a recorder; every command and sweep uses this one."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

from wattstep import engines, workloads
from wattstep.errors import InvalidValueError, RecordingError
from wattstep.live.so_far import LiveForecast
from wattstep.record.recorder import Recorder
from wattstep.record.tracing.schedule import LEAST_CLEAN, WANTED, TraceMode
from wattstep.recorded.memory import AT_PEAK
from wattstep.schema.checks import MOST_NUMBER
from wattstep.schema.condition_documents import ForecastFacts
from wattstep.schema.engine import Trainer, check_lacking
from wattstep.schema.goal import Goal
from wattstep.schema.run_documents import with_processor
from wattstep.schema.settings import parse_duration
from wattstep.schema.step_memory import DEVICE
from wattstep.store.files import new_name
from wattstep.train.batch_bound import check_batch
from wattstep.train.description import describe_training
from wattstep.train.environment import (
    AMBIENT_UNKNOWN,
    FAN_UNKNOWN,
    add_environment,
    canary,
    surroundings,
)
from wattstep.train.environment.core_kinds import taken_for_equal
from wattstep.train.environment.crowding import (
    as_note,
    cores_of_others,
    default_threads,
    too_many_threads,
    usable_cores,
)
from wattstep.train.environment.sustaining import MOST_S as SUSTAIN_SECONDS
from wattstep.train.environment.sustaining import Sustaining
from wattstep.train.environment.waiting import AFTER, BEFORE, stay_idle, wait_until_steady
from wattstep.train.foreground import measure_foreground
from wattstep.train.governor.governor import NONE, Governor, check_governor, governing
from wattstep.train.memory.step import track_step
from wattstep.train.progress import Progress
from wattstep.train.settings import DEFAULT_SECONDS, TrainingSettings
from wattstep.train.time_to_target import TimeToTarget

# Of the seconds that were asked for, from the first step of the warm-up on:
STEPS_TIMES = 2.0  # until then the least steps are waited for
MOST_TIMES = 3.0  # until then traced steps and what follows memory may go on
FEWEST_STEPS = 3  # that count, whatever they take
LOST = 2  # losses in a row that nothing can be calculated with: scaled gradients may overflow once
FIRST_STEPS = (
    10  # in which a training that diverges is refused: as many as an export is tested with
)
BESIDE_S = 10.0  # where steps were asked for: for what comes after them, or as long as those took
MEMORY_STEPS = 20  # what following the memory of a step may take, in steps
# How long a run with a goal may take, where neither steps nor seconds are given.
GOAL_SECONDS = 3600.0
WRITING = "writing"
BESIDE = "measuring operations"  # span of what a trainer does between two steps
REPORT_NS = 100_000_000
# What comes last takes about so long, in s: following the memory of a step, and writing the run.
FOLLOWED_S, WRITING_S = 0.5, 1.0
FORECAST_AT = 0.2  # share of the run from which on what is said to be left is kept in its record


def train(
    settings: TrainingSettings,
    report: Callable[[Progress], None],
    warn: Callable[[str], None] = lambda text: None,
) -> Recorder:
    """Trains and records.

    Args:
        settings: The settings.
        report: Told where it is.
        warn: Told at once what will make the training slow.

    Returns:
        The recorder, closed; its `path` is the run, its `problem` says why it ended early.

    Raises:
        WattstepError: A setting cannot be used, a part is missing, or recording cannot begin.
    """
    engine = engines.find(settings.engine)
    # Nothing else is worth saying then.
    check_lacking(settings.processor, engine.lacking(settings.processor))
    report(Progress(stage="preparing"))
    worked = _worked_by(settings)
    if settings.governor != NONE:
        check_governor(worked, settings.target)
    crowded = None
    # Said before torch is loaded, which others make take long, too.
    if settings.threads is None and worked == "cpu":
        threads = engine.usual_threads(default_threads())
        crowded = too_many_threads(threads, usable_cores(), cores_of_others(), engine.fewer_threads)
    if crowded is not None:
        warn(crowded)
    workload = workloads.find(settings.workload)
    check_batch(workload.facts, settings.batch_size, settings.image_size)
    trainer = engine.prepare(
        workload,
        settings.preparation,
        threads=settings.threads,
        processor=settings.processor,
        precision=settings.precision,
    )
    time_to_target = None
    if settings.until is not None:
        goal = Goal.parse(settings.until)
        time_to_target = TimeToTarget(goal, trainer, every=settings.evaluate_every)
    recorder = Recorder(
        settings.out or Path("runs") / new_name(settings.workload),
        interval=settings.interval,
        keep=settings.keep,
        trace=settings.trace_mode,
        warmup=settings.warmup,
        model=trainer.model,
        engine=trainer.engine,
        power_model=settings.power_model,
        target=settings.target,
        about=describe_training(
            settings,
            engine=trainer.engine.version(),
            threads=trainer.threads,
            options=trainer.options,
            data=trainer.data,
            model=trainer.model_facts(),
        ),
    )
    if crowded is not None:
        recorder.note(as_note(crowded))
    with recorder:
        _describe_device(settings, recorder, trainer)
        _surround(settings, recorder, report)
        with governing(
            recorder, settings.governor, settings.allowed_slowdown,
            processor=worked, target=settings.target,
        ) as begin:  # fmt: skip
            loop = _Loop(settings, trainer, recorder, report, time_to_target, begin)
            loop.run()
        if (compiling := trainer.compiling()) is not None:
            add_environment(recorder, compiling=compiling)
        _describe_schedule(recorder, trainer)
        for text in trainer.remarks():
            recorder.note(text)
        loop.report(WRITING)
    return recorder


def _describe_schedule(recorder: Recorder, trainer: Trainer) -> None:
    """Adds the plan of the operations, where there is one, and that it takes unequal cores for equal."""
    if (facts := trainer.scheduling()) is not None:
        recorder.about(schedule=facts)
        if (note := taken_for_equal(facts)) is not None:
            recorder.note(note)


def _worked_by(settings: TrainingSettings) -> str:
    """The processor that the load is on: of an OpenCL device that is the CPU, the CPU."""
    if settings.processor == "cpu":
        return "cpu"
    engine = engines.find(settings.engine)
    engine.load()
    facts = engine.device_facts(settings.processor)
    return "cpu" if facts.get("kind") == "cpu" else settings.processor


def _describe_device(settings: TrainingSettings, recorder: Recorder, trainer: Trainer) -> None:
    """Adds the GPU that trains to the machine's description."""
    facts = trainer.engine.device_facts(settings.processor)
    recorder.about(device=with_processor(recorder.info.device, facts))


def _surround(
    settings: TrainingSettings, recorder: Recorder, report: Callable[[Progress], None]
) -> None:
    """Records what is known of the surroundings, and waits before the first step."""
    facts = surroundings(recorder.info.reads, settings.ambient, settings.target)
    if "ambient" not in facts and (settings.stable or settings.sustain):
        recorder.note(AMBIENT_UNKNOWN)
    if settings.fan is not None:
        facts.setdefault("fan", {"words": settings.fan, "source": "given by the user"})
    if "fan" not in facts and (settings.stable or settings.sustain):
        recorder.note(FAN_UNKNOWN)
    add_environment(recorder, **facts)
    if settings.stable:
        steady = wait_until_steady(
            recorder, lambda share: report(Progress(stage="waiting until steady", share=share))
        )
        add_environment(recorder, stable=steady)
    _stay_idle(
        settings,
        recorder,
        BEFORE,
        lambda share: report(Progress(stage=_stage(BEFORE), share=share)),
    )
    if settings.canary:
        canary.watch(recorder, canary.BEFORE)


def _stay_idle(
    settings: TrainingSettings, recorder: Recorder, name: str, report: Callable[[float], None]
) -> None:
    """Samples the machine's power at rest for as long as is asked for, while nothing runs."""
    if settings.idle is not None:
        stay_idle(recorder, name, parse_duration(settings.idle), report)


def _stage(name: str) -> str:
    """What progress calls a stretch of the record."""
    return name.replace("_", " ")


class _Loop:
    """Steps until the run has what it was asked for."""

    def __init__(
        self,
        settings: TrainingSettings,
        trainer: Trainer,
        recorder: Recorder,
        report: Callable[[Progress], None],
        time_to_target: TimeToTarget | None,
        begin_to_govern: Callable[[], Governor] | None = None,
        clock: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._trainer = trainer
        self._recorder, self._steps = recorder, recorder.steps
        self._tell = report
        self._samples = float(settings.batch_size * settings.accumulate)
        self._steps.samples = self._samples
        self._reported = 0
        self._warmed = 0  # when the warm-up began, and when it was over
        self._begun = 0
        self._windows = 0  # traced steps so far
        self._window_ns = 0  # what the last of them took
        self._clean = 0  # steps that count
        self._measured = 0.0  # share of the steps that count
        self._after_traced = False
        self._lost = 0  # losses, one after the other
        self._diverged = False
        self._time_to_target = time_to_target
        self._begin_to_govern = begin_to_govern
        self._governor: Governor | None = None
        self._sustaining: Sustaining | None = None
        self._steady = False
        self._eta = LiveForecast(recorder.path, recorder.info)
        self._forecast: ForecastFacts = {}

    def run(self) -> None:
        recorder, settings = self._recorder, self._settings
        time_to_target = self._time_to_target
        if time_to_target is not None:
            time_to_target.begin(recorder)
        self._warmed = self._clock()
        for _ in range(settings.warmup):
            self._step("training")
        _describe_schedule(recorder, self._trainer)
        self._govern()
        self._clean = 0
        self._begun = self._clock()
        if settings.sustain:
            seconds = None if settings.steps is not None else settings.seconds or SUSTAIN_SECONDS
            self._sustaining = Sustaining(
                recorder, self._begun * 1e-9, most_s=seconds, most_steps=settings.steps
            )
        while self._measured < 1 and recorder.problem is None:
            self._step("training")
            self._measured = self._share()
            last = self._measured >= 1
            self._look_at_eta(self._measured)
            if time_to_target is not None and time_to_target.ended(
                last=last, diverged=self._diverged
            ):
                break
            if self._diverged:
                break
        if self._sustaining is not None:
            add_environment(recorder, sustain=self._sustaining.facts())
        self._keep_forecast()
        if recorder.problem is None:
            self._finish()

    def _govern(self) -> None:
        """Steps in which the governor looks what caps of the clocks do; none of them counts."""
        if self._begin_to_govern is None:
            return
        self._governor = self._begin_to_govern()
        while self._governor.looking and self._recorder.problem is None:
            self._step("governing")
        self._warmed = self._clock()  # what was asked for begins now
        index = self._recorder.steps.index
        self._eta = LiveForecast(self._recorder.path, replace(self._recorder.info, warmup=index))

    def _finish(self) -> None:
        """Traced steps that a short run still lacks, and the sizes of what it holds.

        All of it is bounded in time: what does not fit is left out, and the run says so.
        """
        recorder, settings = self._recorder, self._settings
        took = self._clock() - self._begun
        step = took / max(self._clean, 1)
        until, words = self._until(took)
        traces = TraceMode.parse(settings.trace).tracing and not self._diverged
        wanted = WANTED if traces else 0
        # A run that was too short for its traced steps gets them now, with clean ones between; one
        # it has in any case, where its engine tells operations.
        for _ in range(max(wanted - self._steps.traced_steps, 0) * self._steps.can_trace):
            if self._steps.traced_steps >= wanted:  # the schedule has traced some of the clean ones
                break
            clean = LEAST_CLEAN if self._steps.traced_steps else 0
            needed = clean * step + max(step, self._window_ns)
            if self._steps.traced_steps and self._clock() + needed > until:
                recorder.note(
                    f"traced steps: {self._steps.traced_steps}, not {wanted}: more would have taken {words}"
                )
                break
            for _ in range(clean):
                self._step("tracing")
            self._steps.trace_next()
            self._step("tracing")
        left = until - self._clock()  # what idles, or is told apart, takes nothing of it
        # As before the training: no cap of the clocks may pass for a machine that changed.
        with nullcontext() if self._governor is None else self._governor.released():
            if settings.canary and recorder.problem is None:
                canary.watch(recorder, canary.AFTER)
            _stay_idle(settings, recorder, AFTER, lambda share: self.report(_stage(AFTER), share))
        # The optimizer's state exists only after its first step.
        on_device = self._on_device
        sizes = {DEVICE * on_device + name: size for name, size in self._trainer.memory().items()}
        told = any(AT_PEAK in name for name in sizes)  # by the engine itself
        if wanted and recorder.problem is None and not told:
            if MEMORY_STEPS * step > left:
                recorder.note(
                    "memory by category is not known: following a step's memory would have taken "
                    f"{words}"
                )
            else:
                sizes.update(self._followed())
        for category, size in sizes.items():
            recorder.memory(category, size)
        if settings.foreground is not None and recorder.problem is None:
            self.report("foreground")
            measure_foreground(
                recorder, self._trainer.step, seconds=settings.foreground, nice=settings.nice
            )

    @property
    def _on_device(self) -> bool:
        """Memory is a device's own; that of an OpenCL device that is the CPU is the process's."""
        return self._settings.processor != "cpu" and "opencl" not in self._recorder.info.device

    def _until(self, took_ns: int) -> tuple[float, str]:
        """When what comes beside the measured steps is to end, and what more of it would have been."""
        if self._ends_by_time:
            seconds = self._settings.seconds or DEFAULT_SECONDS
            words = f"more than {MOST_TIMES:g} times the {seconds:g} s that were asked for"
            return self._warmed + MOST_TIMES * seconds * 1e9, words
        most = max(took_ns, BESIDE_S * 1e9)
        return self._clock() + most, "longer than the measured steps themselves"

    @property
    def _ends_by_time(self) -> bool:
        """Seconds are asked for, and nothing else."""
        return self._knows_its_end and self._settings.steps is None

    def _followed(self) -> dict[str, int]:
        """Makes a step beside the record, whose memory is followed operation by operation."""
        self.report("following memory")
        try:
            with self._recorder.exclude("memory"):
                device = None
                if self._on_device:
                    device = self._trainer.engine.device_memory(self._settings.processor)
                    self._steps.note_device_memory()  # peaks are reset at each operation
                return track_step(self._trainer, device)
        except RecordingError as error:
            self._recorder.note(f"memory by category is not known: {error}")
            return {}

    def _look_at_eta(self, share: float) -> None:
        """Every other second what was used, and what is left of the steps or the time that were asked for."""
        if share >= 1 or not self._eta.due():
            return
        self._eta.look()
        if not self._forecast and share >= FORECAST_AT and not self._eta.time_left.missing:
            self._forecast = {"after_steps": self._clean, **self._eta.document()}
            self._forecast_ns = time.perf_counter_ns()

    @property
    def _knows_its_end(self) -> bool:
        """A goal, or a steady state, may end it at any time."""
        return self._time_to_target is None and not self._settings.sustain

    def _keep_forecast(self) -> None:
        """Writes the forecast into the run, with the time that it took in the end."""
        if self._forecast:
            came = (time.perf_counter_ns() - self._forecast_ns) * 1e-9
            add_environment(
                self._recorder, forecast={**self._forecast, "time_came": round(came, 6)}
            )

    def _share(self) -> float:
        """Of the run that is done."""
        if self._steady and self._clean >= self._settings.least_steps:
            return 1.0
        if self._settings.steps is not None:
            return self._clean / self._settings.steps
        default = DEFAULT_SECONDS if self._time_to_target is None else GOAL_SECONDS
        default = default if self._sustaining is None else SUSTAIN_SECONDS
        seconds = self._settings.seconds or default
        now = self._clock()
        elapsed, with_warmup = (now - self._begun) * 1e-9, (now - self._warmed) * 1e-9
        if with_warmup > STEPS_TIMES * seconds and self._clean >= FEWEST_STEPS:
            if self._clean < self._settings.least_steps:
                self._recorder.note(
                    f"measuring ended after {self._clean} clean steps, not "
                    f"{self._settings.least_steps}: so many would have taken more than "
                    f"{STEPS_TIMES:g} times the {seconds:g} s that were asked for"
                )
            return 1.0
        return min(elapsed / seconds, self._clean / self._settings.least_steps)

    def report(self, stage: str, done: float = 0.0) -> None:
        """Tells where the run is.

        Args:
            stage: As of `Progress`.
            done: Share of this stage, of one whose end is known.
        """
        share, left_s = self._whole(stage, done)
        steps = self._steps.index
        self._tell(Progress(stage=stage, share=share, steps=steps, ahead=_about(left_s)))

    def _whole(self, stage: str, done: float = 0.0) -> tuple[float, float]:
        """Share of the whole run that is done, and about how many s what follows the measured steps takes yet."""
        following = self._following()
        if stage == "governing":  # what is asked for has not begun
            return 0.0, 0.0
        stages = list(following)
        at = stages.index(stage) if stage in following else 0
        left_s = sum(following[name] for name in stages[at:])
        left_s -= done * following.get(stage, 0.0)
        so_far_s = (self._clock() - self._warmed) * 1e-9
        if stage != "training":
            return so_far_s / (so_far_s + left_s), left_s
        measured_s = so_far_s / self._measured if self._measured else math.inf
        return so_far_s / (measured_s + left_s), left_s

    def _following(self) -> dict[str, float]:
        """About how many s each stage takes that follows the measured steps, in order."""
        settings = self._settings
        step_s = (self._clock() - self._begun) * 1e-9 / max(self._clean, 1) if self._begun else 0.0
        wanted = WANTED if TraceMode.parse(settings.trace).tracing else 0
        windows = max(wanted - self._steps.traced_steps, 0) * self._steps.can_trace
        tracing_s = windows * (LEAST_CLEAN * step_s + max(step_s, self._window_ns * 1e-9))
        took = self._clock() - self._begun
        room_s = max(self._until(took)[0] - self._clock(), 0.0) * 1e-9
        return {
            "tracing": min(tracing_s, room_s),
            _stage(AFTER): 0.0 if settings.idle is None else parse_duration(settings.idle),
            "following memory": FOLLOWED_S if wanted else 0.0,
            "foreground": settings.foreground or 0.0,
            WRITING: WRITING_S,
        }

    def _step(self, stage: str) -> None:
        steps = self._steps
        begin = self._clock()
        begin_step = steps.begin  # of a slot, `steps.begin()` would look for a method first
        begun = begin_step()
        marked = steps.phases_on
        try:
            loss = self._trainer.step(steps.mark)
        except BaseException:
            steps.abandon()
            raise
        steps.end(begun, loss)
        traced = marked and steps.traced_steps > self._windows
        if traced:
            self._windows = steps.traced_steps
            self._window_ns = self._clock() - begin
        alike = not (traced or self._after_traced)
        counts = alike and not (self._governor is not None and self._governor.looking)
        self._clean += counts
        if self._sustaining is not None:
            self._sustain(begin, counts)
        if self._governor is not None:
            self._governor.step(begin, self._clock(), counts=alike)
        self._after_traced = traced  # the step after a traced one finds back to its habits
        self._lost = 0 if abs(loss) <= MOST_NUMBER else self._lost + 1  # NaN is not, either
        if self._lost == LOST:
            self._diverge(loss)
        if (work := self._trainer.due()) is not None:
            with self._recorder.exclude(BESIDE):
                work()
        now = self._clock()
        if now - self._reported > REPORT_NS:
            self._reported = now
            detail = "" if self._sustaining is None else self._sustaining.state
            if self._governor is not None:
                detail = ", ".join(filter(None, (detail, self._governor.state)))
            training = stage == "training"
            share, after_s = self._whole(stage)
            self._tell(
                Progress(
                    stage=stage, share=share, steps=steps.index, loss=loss, said=detail,
                    ahead=self._eta.words(after_s) if training else _about(after_s),
                    unpowered=self._eta.unpowered if training and self._knows_its_end else "",
                )
            )  # fmt: skip

    def _diverge(self, loss: float) -> None:
        """Ends what is no training any more: its steps are not the ones that were to be measured.

        Raises:
            InvalidValueError: It never was one.
        """
        first = self._steps.index - LOST
        if first < FIRST_STEPS and not self._settings.keeps_diverging:
            raise InvalidValueError(
                f"{self._settings.workload} diverges: the loss of step {first + 1} is not finite or beyond {MOST_NUMBER:g}; "
                "choose a smaller learning rate (--optimizer NAME,lr=...)",
                id="diverging-training",
            )
        self._diverged = True
        self._recorder.note(diverged_note(first))

    def _sustain(self, begin_ns: int, counts: bool) -> None:
        """Tells what watches the training of a step that has just ended."""
        assert self._sustaining is not None
        now = self._clock()
        self._steady = self._sustaining.step(
            now * 1e-9, (now - begin_ns) * 1e-9, self._samples, counts=counts
        )


def diverged_note(step: int) -> str:
    """What a run says whose training diverged.

    Args:
        step: The first whose loss nothing can be calculated with.
    """
    return (
        f"the loss is not finite or beyond {MOST_NUMBER:g} from step {step} on: the training diverged, and "
        "measuring ended there"
    )


def _about(seconds: float) -> str:
    """Time left of what follows the measured steps, in words; "" where that is not known."""
    return f"about {max(round(seconds), 1)} s left" if seconds else ""
