"""Settings of a training: each with its default, and the option of the command line for it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wattstep import engines
from wattstep.errors import InvalidValueError
from wattstep.record.hosts import EXECUTION_HOSTS, parse_target
from wattstep.record.tracing.schedule import LEAST_CLEAN, WANTED, TraceMode
from wattstep.schedule import policies
from wattstep.schema.condition_documents import CooldownFacts
from wattstep.schema.cores import check_cores, parse_clusters, spell_cores
from wattstep.schema.goal import Goal
from wattstep.schema.opencl import MODES
from wattstep.schema.run_documents import (
    AskedLength,
    CalibrationFile,
    PlannedFacts,
)
from wattstep.schema.settings import (
    EXCLUDABLE,
    check_above_0,
    option_of,
    parse_duration,
    parse_interval,
    parse_keep,
    parse_power_model,
    parse_share,
    setting,
)
from wattstep.schema.workload import (
    OPTIMIZER_KERNELS,
    RATE_RULES,
    Preparation,
    check_processing,
)
from wattstep.train.allocators import find_allocator
from wattstep.train.environment.core_kinds import clusters_for
from wattstep.train.strategies import MemoryStrategies

LEAST_STEPS = 20  # clean steps of a run that is limited by time
DEFAULT_SECONDS = 15.0
GOVERNORS = ("energy", "none")
DEFAULT_SLOWDOWN = 0.1
_AT_LEAST_ONE = (
    "batch_size", "threads", "steps", "least_steps", "accumulate", "classes", "image_size",
    "evaluate_every", "interop_threads",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class TrainingSettings(MemoryStrategies):
    """Settings of a run.

    Attributes:
        batch_size: Samples of one forward pass; a step takes `accumulate` times as many.
        steps: Measured steps after the warm-up, at least: traced ones come on top, and so do the
            clean ones between those that a short run still lacks, which are measured, too; None: as
            `seconds` say.
        seconds: Measured time; up to twice as much for `least_steps` steps, and three times with
            all that is recorded beside them; 15 where neither is given.
        least_steps: See `seconds`.
        rate_rule: How the learning rate follows the batch; see `Preparation`.
        until: A goal as in `Goal.parse`.
        evaluate_every: None: as many as keep evaluations to a fifth of the time.
        out: Folder of the run, or None for a new one below `runs/`.
        cooled: Result of the cool-down before the run (seconds, temperature, note).
        target: Where the sensors are, as `Recorder` takes it; or the device that trains.
        calibration: Of this machine's power sensors, as `wattstep calibrate` writes it, or None.
        foreground: Seconds of a foreground job alone, of training alone and of both, after the
            recorded steps; None: none.
        planned: The plan that these settings are of, or None.
        canary: Whether a small fixed piece of work before and after the training tells how fast the
            machine itself is.
        made_export: Folder of an export that was made for this run alone, before its memory was bounded;
            None: none was.
        keeps_diverging: Whether a training that diverges in its first steps is a result, as of a sweep,
            whose table says that it fits and does not learn; it is refused otherwise.

    The others: as the help of their options says.
    """

    workload: str
    batch_size: int = setting(4, option="batch")
    steps: int | None = setting(
        None,
        "Measured steps after the warm-up, at least. Traced ones come on top, 10 in a short run, "
        "with up to 3 measured ones before each.",
        "N",
    )
    seconds: float | None = setting(
        None,
        "Measured time; up to twice as much for 20 steps. Traced steps and the memory of a step "
        "come on top, up to three times in all. [default: 15]",
        "S",
    )
    least_steps: int = LEAST_STEPS
    keeps_diverging: bool = False
    warmup: int = setting(3, "First steps that do not count.", "N")
    threads: int | None = setting(
        None, "Threads of an operation. [default: the framework's choice]", "N"
    )
    engine: str = setting("torch", "Framework; `wattstep engines` lists them.", "NAME")
    processor: str = setting(
        "",
        "cpu, or cuda for an NVIDIA GPU; cuda:1 for the second one. Of the engine opencl: opencl, or "
        "opencl:1 for the second device. [default: the engine's first]",
        "NAME",
    )
    interop_threads: int | None = setting(
        None,
        "Threads that run operations beside each other. [default: the framework's choice]",
        "N",
    )
    cores: str | None = setting(
        None,
        "Cores that the training may run on, e.g. 0-3 or 0+2; with --policy heterogeneous also sets of "
        "unequal ones, the fastest first, e.g. 0-3,4-7. [default: all]",
        "SET",
    )
    allocator: str | None = setting(
        None,
        "keep (glibc keeps what is freed), keep-huge (and asks for huge pages), jemalloc, tcmalloc. "
        "[default: glibc as it is]",
        "NAME",
    )
    optimizer_kernel: str | None = setting(
        None,
        "fused or foreach: how the optimizer goes through the parameters, with the same arithmetic. "
        "[default: the framework's choice]",
        "KIND",
    )
    precision: str = setting(
        "fp32",
        "fp32; bf16 (weights, gradients and activations in bfloat16); amp (weights in fp32, "
        "products of matrices in bfloat16). On a GPU also tf32 (fp32 whose products are rounded "
        "to TF32) and amp-fp16 (amp in float16, with a gradient scaler).",
        "KIND",
    )
    channels_last: bool = setting(
        False, "Images and the kernels that they meet lie in memory with their channels last."
    )
    compiled: bool = setting(
        False, "torch.compile of the model, within the first steps.", option="compile"
    )
    policy: str | None = setting(
        None,
        "Operations run by a plan of this policy in place of the framework's own order, on a CPU: "
        f"{', '.join(policies.POLICIES)}.",
        "NAME",
    )
    opencl_mode: str | None = setting(
        None,
        "With --engine opencl: copying (inputs and outputs of every operation cross between host and "
        "device), resident (batches and the loss do), fused (likewise, with joined kernels, shared "
        "memory, and copies beside them). [default: fused]",
        "MODE",
    )
    accumulate: int = setting(
        1,
        "Batches whose gradients are added up before the optimizer steps; a step takes "
        "batch × accumulate samples.",
        "N",
    )
    classes: int | None = setting(None, "Classes of the network. [default: the workload's]", "N")
    image_size: int | None = setting(
        None, "Height and width of images. [default: the workload's]", "N"
    )
    rate_rule: str = setting(
        "linear", "How the learning rate follows the batch: linear, sqrt or fixed.", "RULE"
    )
    until: str | None = setting(
        None,
        "Train until an evaluation reaches it: accuracy=0.6 or loss=1.2. --steps or --seconds are "
        "then the most that it may take. [default: an hour]",
        "GOAL",
    )
    evaluate_every: int | None = setting(
        None,
        "Steps between evaluations. [default: a fifth of the time goes into them]",
        "N",
    )
    memory_reserve: str | None = setting(
        None,
        "Memory of the whole machine that must stay available, e.g. 512MiB: a watchdog ends the "
        "training before. [default: 5 %, at least 256 MiB, where the GPU shares the system's "
        "memory, as on a Jetson; else no watchdog]",
        "SIZE",
    )
    interval: str = setting("10ms", "Period of the sampler, 1ms at the finest.", "DURATION")
    keep: str | None = setting(
        None,
        "How long samples and steps stay single ones, e.g. raw=1h,steps=1h: older ones are thinned to "
        "stretches of 10 s, of which totals, means and extremes stay exact. [default: for ever]",
        "raw=AGE,steps=AGE",
    )
    trace: str = setting("auto", "Which steps are traced: auto, none or every:N.", "MODE")
    seed: int = setting(0, "Of everything that is drawn.", "N")
    data_dir: str | None = setting(
        None,
        "Folder with official data; stand-ins without it. With ssh://: on the board.",
        "DIR",
        option="data",
    )
    out: str | None = None
    power_model: str | None = setting(
        None,
        "Where no power sensor is: vcpu, or linear:IDLE,BUSY in watts a core, for the training's "
        "own CPU time. The figures are then marked as modelled.",
        "MODEL",
    )
    target: str | None = setting(
        None,
        "Where the sensors are: local, replay:RECORDING (recorded ones play in their place) or "
        "emulate:BOARD (a model of a board follows the load). Or the device that trains: "
        "ssh://USER@BOARD, adb://SERIAL. [default: local]",
        "TARGET",
    )
    idle: str | None = setting(
        None,
        "Leave the machine idle for so long before the first step and after the last, e.g. 30s: "
        "its power at rest, cold and warm.",
        "DURATION",
    )
    subtract_idle: str | None = setting(
        None,
        "With --idle: take the power at rest off the energy, that before or that after.",
        "WHICH",
    )
    exclude: str | None = setting(
        None,
        "Steps that the figures leave out: throttled, disturbed, or both with a comma.",
        "KIND,...",
    )
    governor: str = setting(
        "none",
        "energy: cap the clocks where the first steps show that it saves energy, within --slowdown; "
        "none.",
        "KIND",
    )
    slowdown: str | None = setting(
        None, "With --governor energy: how much slower steps may get. [default: 10%]", "SHARE"
    )
    stable: bool = setting(
        False,
        "Wait before the first step until temperature and frequency are steady, 10 minutes at "
        "most.",
    )
    sustain: bool = setting(
        False,
        "Train until temperature, frequency and throughput are steady. --seconds or --steps are "
        "then the most that it may take. [default: 75 minutes]",
    )
    ambient: float | None = setting(
        None, "Ambient temperature, where no sensor tells it.", "CELSIUS"
    )
    fan: str | None = setting(
        None,
        "What cools the device where no sensor tells, in a few words: none, full speed.",
        "WORDS",
    )
    cooled: CooldownFacts | None = None
    calibration: CalibrationFile | None = None
    foreground: float | None = setting(None, option="foreground-seconds")
    nice: int = setting(0, "With --foreground: nice value of the training.", "N")
    canary: bool = False
    planned: PlannedFacts | None = None
    exported: str | None = setting(
        None,
        "A training that `wattstep engines export` wrote: its workload, batch size and engine, trained "
        "where torch is not.",
        "DIR",
        option="from",
    )
    made_export: str | None = None

    def __post_init__(self) -> None:
        for name in _AT_LEAST_ONE:
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InvalidValueError(
                    f"--{option_of(TrainingSettings, name)} {value}: it must be at least 1",
                    id="out-of-range",
                )
        if self.rate_rule not in RATE_RULES:
            known = ", ".join(RATE_RULES)
            raise InvalidValueError(
                f"--rate-rule {self.rate_rule}: there are {known}", id="unknown-rate-rule"
            )
        if self.seconds is not None:
            check_above_0(f"--seconds {self.seconds:g}", self.seconds)
        if self.foreground is not None:
            check_above_0(f"--foreground-seconds {self.foreground:g}", self.foreground)
        if not 0 <= self.nice <= 19:
            raise InvalidValueError(
                f"--nice {self.nice}: it lies between 0 and 19", id="out-of-range"
            )
        if self.nice and self.foreground is None:
            raise InvalidValueError(
                "--nice is for the training beside a job: give --foreground", id="needs-foreground"
            )
        if self.warmup < 0:
            raise InvalidValueError(
                f"--warmup {self.warmup}: it cannot be negative", id="out-of-range"
            )
        if not self.processor:
            object.__setattr__(self, "processor", engines.find(self.engine).processors[0])
        check_engine(
            self.engine, self.processor, self.precision,
            channels_last=self.channels_last, compiled=self.compiled, policy=self.policy,
            opencl_mode=self.opencl_mode, interop_threads=self.interop_threads, optimizer_kernel=self.optimizer_kernel, **self.strategies,
        )  # fmt: skip
        if self.opencl_mode not in (None, *MODES):
            raise InvalidValueError(
                f"--opencl-mode {self.opencl_mode}: there are {', '.join(MODES)}",
                id="unknown-opencl-mode",
            )
        if self.policy is not None:
            policies.check_name(self.policy)
            if self.warmup < policies.FIRST_STEPS:
                raise InvalidValueError(
                    f"--policy and --warmup {self.warmup}: the first {policies.FIRST_STEPS} steps show what a plan "
                    "consists of, and cannot count",
                    id="out-of-range",
                )
        if self.optimizer_kernel not in (None, *OPTIMIZER_KERNELS):
            raise InvalidValueError(
                f"--optimizer-kernel {self.optimizer_kernel}: there are {', '.join(OPTIMIZER_KERNELS)}",
                id="unknown-optimizer-kernel",
            )
        self.check_strategies(compiled=self.compiled)
        if self.exported is not None and not engines.find(self.engine).exports:
            raise InvalidValueError(
                f"--from: {self.engine} trains workloads as they are: leave it out",
                id="nothing-to-export",
            )
        from wattstep.train.environment import check_target  # which loads the recorder

        away = parse_target(self.target).scheme in EXECUTION_HOSTS
        if not (away or self.data_dir is None or Path(self.data_dir).is_dir()):
            raise InvalidValueError(
                f"--data {self.data_dir}: there is no such folder", id="no-such-folder"
            )
        self._check_process(away=away)
        if self.until is not None:
            Goal.parse(self.until)
        TraceMode.parse(self.trace)
        parse_power_model(self.power_model)
        if not away:  # what is there is seen there
            check_target(self.target, self.ambient)
        if self.calibration is not None and not away and self.target not in (None, "local"):
            raise InvalidValueError("--calibration is of this machine's sensors: without --target")
        self._check_environment()
        parse_interval(self.interval)
        if "steps_s" in parse_keep(self.keep) and (self.exclude or self.governor != "none"):
            raise InvalidValueError(
                "--keep steps: not with --exclude or --governor, which leave out single steps",
                id="needs-single-steps",
            )

    def _check_process(self, *, away: bool) -> None:
        """Refuses cores and an allocator that a process here cannot have."""
        for option, value in (("cores", self.cores), ("allocator", self.allocator)):
            if away and value is not None:
                raise InvalidValueError(
                    f"--{option}: of a training on this machine; without --target", id="only-here"
                )
        if self.cores is not None:
            clusters = parse_clusters(self.cores)
            for each in clusters:
                check_cores(spell_cores(each))
            if len(clusters) > 1 and self.policy != policies.UNEQUAL:
                raise InvalidValueError(
                    f"--cores {self.cores}: several sets are kinds of cores, which --policy {policies.UNEQUAL} alone "
                    f"tells apart: give it, or --cores {spell_cores(sum(clusters, ()))}",
                    id="needs-policy",
                )
        if self.allocator is not None:
            find_allocator(self.allocator)

    def _check_environment(self) -> None:
        from wattstep.train.environment import COLDEST_C, HOTTEST_C

        if self.idle is not None:
            parse_duration(self.idle)
        if self.subtract_idle not in (None, "before", "after"):
            raise InvalidValueError(f"--subtract-idle {self.subtract_idle}: before or after")
        if self.subtract_idle is not None and self.idle is None:
            raise InvalidValueError(
                "--subtract-idle takes off what --idle measures: give --idle", id="needs-idle"
            )
        for kind in self.excluded:
            if kind not in EXCLUDABLE:
                known = ", ".join(EXCLUDABLE)
                raise InvalidValueError(
                    f"--exclude {self.exclude}: there are {known}", id="unknown-exclusion"
                )
        if self.ambient is not None and not COLDEST_C <= self.ambient <= HOTTEST_C:
            raise InvalidValueError(
                f"--ambient {self.ambient:g}: it lies between {COLDEST_C:g} and {HOTTEST_C:g} °C",
                id="out-of-range",
            )
        if self.governor not in GOVERNORS:
            raise InvalidValueError(
                f"--governor {self.governor}: there are {', '.join(GOVERNORS)}",
                id="unknown-governor",
            )
        if self.slowdown is not None:
            if self.governor == "none":
                raise InvalidValueError(
                    "--slowdown is what --governor energy may cost: give --governor energy",
                    id="needs-governor",
                )
            parse_share(self.slowdown)
        if self.governor != "none" and parse_target(self.target).scheme in EXECUTION_HOSTS:
            raise InvalidValueError(
                "--governor: a device that trains elsewhere is not governed yet: run wattstep on it",
                id="governor-elsewhere",
            )
        if self.sustain and self.until is not None:
            raise InvalidValueError(
                "--sustain and --until: a run ends for one reason, choose one", id="two-ends"
            )

    @property
    def allowed_slowdown(self) -> float:
        """How much slower the governor may make steps, e.g. 0.1."""
        return DEFAULT_SLOWDOWN if self.slowdown is None else parse_share(self.slowdown)

    @property
    def governed_by(self) -> str:
        """The governor and what it may cost, in words; "" for none."""
        if self.governor == "none":
            return ""
        return f"{self.governor}, at most {100 * self.allowed_slowdown:g} % slower"

    @property
    def excluded(self) -> tuple[str, ...]:
        """Kinds of steps that the figures leave out."""
        if self.exclude is None:
            return ()
        return tuple(dict.fromkeys(kind.strip() for kind in self.exclude.split(",")))

    @property
    def preparation(self) -> Preparation:
        """Preparation that the workload is built from."""
        return Preparation(
            batch_size=self.batch_size,
            accumulate=self.accumulate,
            seed=self.seed,
            data_dir=None if self.data_dir is None else Path(self.data_dir),
            classes=self.classes,
            image_size=self.image_size,
            rate_rule=self.rate_rule,
            channels_last=self.channels_last,
            compiled=self.compiled,
            optimizer_kernel=self.optimizer_kernel,
            interop_threads=self.interop_threads,
            policy=self.policy,
            clusters=clusters_for(self.cores) if self.policy == policies.UNEQUAL else (),
            opencl_mode=self.opencl_mode,
            exported=Path(place) if (place := self.exported or self.made_export) else None,
            **self.prepared,
        )

    @property
    def asked(self) -> AskedLength:
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


def check_engine(name: str, processor: str, precision: str, **options: Any) -> None:
    """Refuses an engine that is not there, and what it cannot do.

    Args:
        name: Of the engine.
        processor: As `check_processing` takes it.
        precision: Likewise.
        options: What only some engines heed, by name; see `Engine.options`.

    Raises:
        InvalidValueError: With the option.
    """
    engine = engines.find(name)
    check_processing(processor, precision, engine.processors, name)
    for each, wanted in options.items():
        if wanted and each not in engine.options:
            raise InvalidValueError(
                f"--{option_of(TrainingSettings, each)}: {engine.name} has no such thing: leave it out, "
                f"or train with --engine {engines.DEFAULT}",
                id="not-for-engine",
            )
