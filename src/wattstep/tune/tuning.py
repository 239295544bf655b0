"""Tunes a workload or a script in a folder: looks at the machine, searches, and writes the settings."""

from __future__ import annotations

import os
import shlex
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Final

from wattstep import engines, workloads
from wattstep.errors import InvalidValueError
from wattstep.plan.file import write_tuned
from wattstep.schema.cores import check_cores, spell_cores
from wattstep.schema.settings import option_of
from wattstep.stats.front import non_dominated
from wattstep.train.batch_bound import check_batch
from wattstep.train.child.limits import MemoryLimit
from wattstep.train.child.local_machine import one_at_a_time
from wattstep.train.environment import canary
from wattstep.train.environment.core_kinds import kinds_of_cores
from wattstep.train.environment.crowding import cores_of_others, default_threads, too_many_threads
from wattstep.train.governor.governor import NOT_THE_CLOCK, check_governor
from wattstep.train.script import ProfileSettings
from wattstep.train.settings import TrainingSettings
from wattstep.tune.folder import PLAN, KeptBench, TuneFolder
from wattstep.tune.processes import ScriptBench, WorkloadBench
from wattstep.tune.search import Search, Tell
from wattstep.tune.snippet import snippet_of
from wattstep.tune.space import Place, Value, parse_turned, searched
from wattstep.tune.turns import Ask, Bench, Turn
from wattstep.tune.verdict import Goal, Measured, Tuned

GOALS: Final = ("time", "energy")
SCRIPT_OPTIONS: Final = ("channels_last", "compiled", "optimizer_kernel", "interop_threads")
CHANGED: Final = 0.10  # of the canary: the machine itself was another
MARKER: Final = ProfileSettings.step_marker  # where nobody says another
CAPPED: Final = (
    "the command caps them while it trains, where its first steps show that this saves energy"
)


@dataclass(frozen=True, kw_only=True)
class Question:
    """What is tuned, and how.

    Attributes:
        settings: Of the default: of a workload, or of a script.
        goal: What is to be the least.
        limit: Of memory.
        allow: As `Place.allow`.
        given: As `Place.given`.
        turned: As `Place.turned`.
    """

    settings: TrainingSettings | ProfileSettings
    goal: Goal = "time"
    limit: MemoryLimit | None = None
    allow: frozenset[str] = frozenset()
    given: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)
    turned: frozenset[str] = field(default_factory=lambda: parse_turned(None))

    @property
    def name(self) -> str:
        """Of the workload, or of the script's file or module."""
        if isinstance(self.settings, TrainingSettings):
            return self.settings.workload
        return self.settings.script if self.settings.module else Path(self.settings.script).name

    def document(self) -> dict[str, Any]:
        """What has to be the same for a tune to go on, JSON-ready."""
        return {
            "settings": {
                key: value for key, value in asdict(self.settings).items() if key != "out"
            },
            "goal": self.goal,
            "memory_limit": None if self.limit is None else self.limit.size,
            "allow": sorted(self.allow),
            "turned": sorted(self.turned),
            "given": {name: list(values) for name, values in self.given.items()},
        }


@dataclass(frozen=True, kw_only=True)
class TuneReport:
    """What a tune found.

    Attributes:
        name: Of what was tuned.
        script: Whether it is a script.
        batch_size: Of a workload; None: a script.
        tuned: Of the search.
        left_out: Knobs that were not turned, and why.
        notes: What a reader must know, a sentence each.
        folder: Of the tune.
        plan: File of the settings.
        command: Trains with them.
        snippet: For one's own script.
    """

    name: str
    script: bool
    batch_size: int | None
    tuned: Tuned
    left_out: Mapping[str, str]
    notes: Sequence[str]
    folder: Path
    plan: Path
    command: str
    snippet: str

    @property
    def front(self) -> list[Measured]:
        """Of the default and the finalists those that no other beats in time, energy and memory."""
        measured = self.tuned.measured
        kept = non_dominated([each.costs for each in measured])
        return [each for each, on_front in zip(measured, kept, strict=True) if on_front]

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        tuned = self.tuned
        return {
            "workload": None if self.script else self.name,
            "script": self.name if self.script else None,
            "batch_size": self.batch_size,
            "goal": tuned.goal,
            "keep_the_default": tuned.chosen is None,
            "settings": dict(tuned.chosen.candidate.changes) if tuned.chosen else {},
            "chosen": tuned.chosen.to_dict() if tuned.chosen else None,
            "measured": [each.to_dict() for each in tuned.measured],
            "front": [each.candidate.text for each in self.front],
            "seen": {each.text: ratio for each, ratio in tuned.seen.items()},
            "refused": {each.text: why for each, why in tuned.refused.items()},
            "not_turned": dict(self.left_out),
            "losses_compared": tuned.compared,
            "losses_not_compared": [each.text for each in tuned.uncompared],
            "steps": tuned.steps,
            "notes": list(self.notes),
            "folder": str(self.folder),
            "plan": str(self.plan),
            "command": self.command,
            "snippet": self.snippet,
        }


def tune(
    question: Question,
    out: Path,
    tell: Tell = lambda stage, share: None,
    warn: Callable[[str], None] = lambda text: None,
) -> TuneReport:
    """Tunes, or goes on where it was killed.

    Args:
        question: What is tuned.
        out: Folder of the tune.
        tell: Hears the stage and the share that is done.
        warn: Told at once what a user should know.

    Raises:
        InvalidValueError: It cannot be tuned, or the folder is another's.
        RecordingError: The folder cannot be written.
    """
    workload = question.settings if isinstance(question.settings, TrainingSettings) else None
    if workload is not None and engines.find(workload.engine).exports:
        raise InvalidValueError(
            f"--engine {workload.engine} does not change its settings while it trains: it cannot be tuned; "
            f"--engine {engines.DEFAULT} can",
            id="not-tunable",
        )  # before minutes are spent on an export
    processor = "cpu" if workload is None else workload.processor
    with TuneFolder(out, question.document(), processor, warn) as folder:
        place, crowded = _place(question, folder)
        if crowded is not None:
            warn(crowded)
        values, left_out = searched(place)
        left_out["clocks"] = clocks_of(question) or CAPPED
        watch = _Watch(folder, warn)
        with _bench(question) as bench:
            search = Search(
                values, KeptBench(folder, watch.around(bench)), question.goal, question.allow, tell
            )
            tuned = search.run()
        notes = [*([crowded] if crowded else []), *watch.notes()]
        plan = out / PLAN
        changes = dict(tuned.chosen.candidate.changes) if tuned.chosen else {}
        write_tuned(
            plan,
            name=question.name,
            script=workload is None,
            settings={**({} if workload is None else own_of(workload)), **changes},
            goal=question.goal,
            ratio=tuned.chosen.ratio if tuned.chosen else None,
        )
    return TuneReport(
        name=question.name,
        script=workload is None,
        batch_size=None if workload is None else workload.batch_size,
        tuned=tuned,
        left_out=left_out,
        notes=notes,
        folder=out,
        plan=plan,
        command=command_of(question, plan),
        snippet=snippet_of(changes),
    )


def clocks_of(
    question: Question, check: Callable[[str, str | None], None] = check_governor
) -> str | None:
    """Why no clocks are capped; None: a run with the plan does it, which tests what it caps itself.

    Args:
        question: What is tuned.
        check: Refuses a processor and a target whose clocks nobody may set.
    """
    settings = question.settings
    if question.goal != "energy":
        return "a lower one saves no time: --for energy"
    if not isinstance(settings, TrainingSettings):
        return "wattstep run caps them, wattstep profile does not"
    if settings.power_model is not None:
        return NOT_THE_CLOCK
    try:
        check(settings.processor, settings.target)
    except InvalidValueError as error:
        return str(error).removeprefix("--governor: ")
    return None


_STRATEGIES: Final = ("checkpointing", "train_last", "lora", "optimizer", "offload")
# Of the default, what a run with its plan must have, too; and what is of this machine and stands beside the plan.
_OWN: Final = (
    "batch_size", "accumulate", "engine", "processor", "classes", "image_size", "precision", "seed", "threads",
    "interop_threads", "cores", "allocator", "optimizer_kernel", "channels_last", "compiled", "policy", *_STRATEGIES,
)  # fmt: skip
_BESIDE: Final = ("data_dir", "power_model")


def own_of(settings: TrainingSettings) -> dict[str, Any]:
    """Settings of the default that a run with its plan must have, too."""
    values = {name: getattr(settings, name) for name in _OWN}
    return {name: value for name, value in values.items() if value not in (None, False)}


def command_of(question: Question, plan: Path) -> str:
    """Trains with a plan as the tune did: the same data, the same arguments, the same power model."""
    settings = question.settings
    beside = {
        f"--{option_of(TrainingSettings, name)}": str(value)
        for name in _BESIDE
        if (value := getattr(settings, name, None)) is not None
    }
    options = [word for pair in beside.items() for word in pair]
    if isinstance(settings, TrainingSettings):
        options += [] if clocks_of(question) else ["--governor", "energy"]
        return shlex.join(["wattstep", "run", "--plan", str(plan), *options])
    if settings.step_marker != MARKER:
        options += ["--step-marker", settings.step_marker]
    script = ["-m", settings.script, "--"] if settings.module else [settings.script]
    return shlex.join(
        ["wattstep", "profile", "--plan", str(plan), *options, *script, *settings.arguments]
    )


class _Watch:
    """Looks at the machine itself in every round of the verdict: a canary at its begin.

    Args:
        folder: Of the tune, which keeps what it saw.
        warn: Told at once what a user should know.
    """

    def __init__(self, folder: TuneFolder, warn: Callable[[str], None]) -> None:
        self._folder, self._warn = folder, warn
        self._waited = False

    def waits(self) -> None:
        """Says once that somebody else measures on this machine."""
        if not self._waited:
            self._waited = True
            self._warn("another measurement on this machine goes on: this one takes turns with it")

    def around(self, bench: Bench) -> Bench:
        """The bench, one measurement at a time on this machine, with canaries."""
        return _WatchedBench(bench, self)

    def look(self, ask: Ask) -> None:
        """A canary, where a round of the verdict begins."""
        if ask.stage == "verdict":
            self._folder.remember(f"canary/{ask.round}", _canary_s)

    def notes(self) -> list[str]:
        """Whether it changed from round to round."""
        seen = [
            turn.seconds[0] for key, turn in self._folder.turns.items() if key.startswith("canary/")
        ]
        if len(seen) < 2 or max(seen) / min(seen) - 1 <= CHANGED:
            return []
        return [
            f"the machine itself changed while rounds of the verdict were made: its canary took {min(seen) * 1e3:.1f} "
            f"to {max(seen) * 1e3:.1f} ms; the interval is over such rounds"
        ]


def _canary_s() -> float:
    """Median time of a canary's pass of computing, in s."""
    return statistics.median(canary.work(canary.BRIEF_S)["compute_s"])


class _WatchedBench:
    """A bench with the watch beside it."""

    def __init__(self, bench: Bench, watch: _Watch) -> None:
        self._bench, self._watch = bench, watch

    def measure(self, ask: Ask) -> Turn:
        """As `Bench.measure`."""
        with one_at_a_time(waits=self._watch.waits):
            self._watch.look(ask)
            return self._bench.measure(ask)


def _bench(question: Question) -> WorkloadBench | ScriptBench:
    power = question.goal == "energy"
    if isinstance(question.settings, TrainingSettings):
        return WorkloadBench(question.settings, question.limit, power=power)
    return ScriptBench(question.settings, question.limit, power=power)


def _place(question: Question, folder: TuneFolder) -> tuple[Place, str | None]:
    """The machine as the search sees it, and whether the default's threads wait for others' cores.

    Where the tune goes on, the machine counts as it was when it began: else it would search other values.
    """
    settings = question.settings
    cores = check_cores(_cores_of(settings))
    others = folder.remember("others", cores_of_others)
    if isinstance(settings, TrainingSettings):
        engine = engines.find(settings.engine)
        threads = settings.threads or engine.usual_threads(min(default_threads(), len(cores)))
        options: Sequence[str] = engine.options
        precisions: Sequence[str] = workloads.find(settings.workload).facts.precisions
        precision = settings.precision
    else:
        threads, options, precisions, precision = default_threads(), SCRIPT_OPTIONS, (), "fp32"
    place = Place(
        cores=cores,
        clusters=kinds_of_cores(cores),
        others=others,
        threads=threads,
        options=options,
        precision=precision,
        precisions=precisions,
        processor=settings.processor if isinstance(settings, TrainingSettings) else "cpu",
        script=not isinstance(settings, TrainingSettings),
        energy=question.goal == "energy",
        allow=question.allow,
        given=question.given,
        turned=question.turned,
    )
    return place, too_many_threads(threads, len(cores), others, "fewer are tried: {}")


def _cores_of(settings: TrainingSettings | ProfileSettings) -> str:
    own = settings.cores if isinstance(settings, TrainingSettings) else None
    return own or spell_cores(os.sched_getaffinity(0))


def goal_of(text: str) -> Goal:
    """What is to be the least.

    Raises:
        InvalidValueError: There is no such goal.
    """
    if text not in GOALS:
        raise InvalidValueError(f"--for {text}: there are {', '.join(GOALS)}", id="unknown-goal")
    return "energy" if text == "energy" else "time"


def settings_of(
    what: str,
    arguments: Sequence[str] = (),
    *,
    module: bool = False,
    step_marker: str = MARKER,
    power_model: str | None = None,
    **given: Any,
) -> TrainingSettings | ProfileSettings:
    """Settings of the default of what is tuned: of a workload, or of a script.

    Args:
        what: A workload's name; or a script, whose name ends in .py; or a module.
        arguments: The script's own.
        module: Whether it is a module.
        step_marker: Of a script.
        power_model: As `Recorder` takes it.
        given: Of a workload: further fields of `TrainingSettings`; of a script none but their defaults.

    Raises:
        InvalidValueError: There is no such workload or script, something is not for it, or its batch is larger
            than the memory.
    """
    defaults = {each.name: each.default for each in fields(TrainingSettings)}
    if strange := sorted(set(given) - set(defaults)):
        raise InvalidValueError(
            f"there is no setting {', '.join(strange)}: {', '.join(defaults)}", id="unknown-setting"
        )
    if module or what.endswith(".py"):
        own = [
            name for name, value in given.items() if value != defaults[name] or name == "batch_size"
        ]
        if own:
            options = [f"--{option_of(TrainingSettings, name)}" for name in own]
            raise InvalidValueError(
                f"{', '.join(options)}: a script says that itself; its own arguments stand after --",
                id="not-of-a-script",
            )
        return ProfileSettings(
            script=what, module=module, arguments=tuple(arguments), step_marker=step_marker,
            power_model=power_model,
        )  # fmt: skip
    if arguments:
        raise InvalidValueError(
            f"{' '.join(arguments)}: one workload is tuned at a time", id="several-to-tune"
        )
    if Path(what).is_file():
        raise InvalidValueError(
            f"{what}: a script's name ends in .py; a module is given with -m", id="not-a-script"
        )
    workloads.check_name(what)
    settings = TrainingSettings(
        workload=what, power_model=power_model, **{"trace": "none", **given}
    )
    engines.find(settings.engine)
    check_batch(workloads.find(what).facts, settings.batch_size, settings.image_size)
    return settings


def check_given(threads: Sequence[int], cores: Sequence[str]) -> dict[str, tuple[Value, ...]]:
    """Values that a user names, by knob.

    Raises:
        InvalidValueError: More threads than cores, or cores that this process may not run on.
    """
    most = len(os.sched_getaffinity(0))
    for count in threads:
        if not 1 <= count <= most:
            raise InvalidValueError(
                f"--threads {count}: between 1 and {most}, the cores that this process may run on",
                id="threads-above-cores",
            )
    for each in cores:
        check_cores(each)
    given: dict[str, tuple[Value, ...]] = {}
    if threads:
        given["threads"] = tuple(dict.fromkeys(threads))
    if cores:
        given["cores"] = tuple(dict.fromkeys(cores))
    return given
