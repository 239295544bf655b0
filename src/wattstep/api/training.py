"""Trainings from Python: train, sweep and tune."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wattstep.errors import InvalidValueError

if TYPE_CHECKING:
    from wattstep.api.runs import RunPath
    from wattstep.run import Run
    from wattstep.schema.outcome import Outcome
    from wattstep.sweep.sweep import SweepListener
    from wattstep.train.child.limits import MemoryLimit
    from wattstep.train.execution_hosts import ExecutionHost
    from wattstep.train.progress import Progress
    from wattstep.train.settings import TrainingSettings
    from wattstep.tune.tuning import TuneReport

SWEEP_STEPS = (
    5  # least of a configuration that is limited by time: a large one takes seconds a step
)


def train(
    workload: str,
    *,
    batch_size: int = 4,
    steps: int | None = None,
    seconds: float | None = None,
    threads: int | None = None,
    precision: str = "fp32",
    target: str | None = None,
    memory_limit: str | None = None,
    out: RunPath | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    **settings: Any,
) -> Run:
    """Trains a workload of the suite in a process of its own, and records what that costs.

    >>> run = wattstep.train("lenet", batch_size=16, steps=100)      # doctest: +SKIP
    >>> float(run.metrics["step_time"])                              # doctest: +SKIP

    Args:
        workload: Its name; see `wattstep suite`.
        batch_size: Samples of one forward pass.
        steps: Measured steps after the warm-up, at least.
        seconds: Measured time; 15 where neither it nor `steps` is given.
        threads: Of an operation; None: the framework's choice.
        precision: "fp32", "bf16" or "amp".
        target: Where it trains or where the sensors are: "ssh://BOARD", "adb://SERIAL",
            "emulate:BOARD", ...; None: here.
        memory_limit: Of the training process, e.g. "8GiB".
        out: Folder of the new run; None: one below `runs/`.
        on_progress: Told where the training is.
        settings: Any other field of `wattstep.train.settings.TrainingSettings`.

    Returns:
        The run, opened.

    Raises:
        InvalidValueError: A setting cannot be used.
        RunExistsError: The folder is taken.
        RecordingError: Nothing can be recorded there.
    """
    from wattstep.run import load
    from wattstep.train.execution_hosts import is_elsewhere

    asked = _settings(
        workload=workload,
        batch_size=batch_size,
        steps=steps,
        seconds=seconds,
        threads=threads,
        precision=precision,
        target=target,
        out=None if out is None else str(out),
        canary=settings.pop("canary", memory_limit is None),
        **settings,
    )
    limit = _limit(memory_limit, here=not is_elsewhere(target))
    place = open_execution_host(target, _warn)
    try:
        return load(place.train(asked, on_progress or _unheard, _warn, limit))
    finally:
        place.close()


def sweep(
    workloads: str | Sequence[str],
    batches: Sequence[int],
    *,
    threads: Sequence[int | None] = (None,),
    precisions: Sequence[str] = ("fp32",),
    engines: Sequence[str] = ("torch",),
    repeats: int = 1,
    memory_limit: str | None = None,
    cooldown: str = "auto",
    out: RunPath = "sweep",
    listener: SweepListener | None = None,
    **settings: Any,
) -> dict[str, Any]:
    """Trains every combination on this machine, each in a process of its own: what fits, at what cost.

    >>> report = wattstep.sweep("lenet", [1, 16], steps=50)           # doctest: +SKIP
    >>> [each["status"] for each in report["outcomes"]]               # doctest: +SKIP

    Args:
        workloads: One or more.
        batches: Samples of one forward pass.
        threads: Of an operation; None: the framework's choice.
        precisions: "fp32", "bf16", "amp".
        engines: Frameworks, as `wattstep engines` lists them.
        repeats: Rounds of all combinations, one after the other.
        memory_limit: Of each training process, e.g. "8GiB".
        cooldown: Between trainings: "auto", "none", or seconds.
        out: Folder of the sweep; one that was begun continues.
        listener: Told where the sweep is.
        settings: Fields of `wattstep.train.settings.TrainingSettings` that all have in common; `trace`
            is "none" unless given.

    Returns:
        The document of `wattstep sweep --json`, without its report.

    Raises:
        InvalidValueError: A setting cannot be used.
        RecordingError: Nothing can be measured or written any more.
    """
    from wattstep import workloads as suite
    from wattstep.sweep.folder import SweepFolder, load_sweep
    from wattstep.sweep.plan import ONE_ENGINE, SweepPlan
    from wattstep.sweep.sweep import sweep_here
    from wattstep.train.child.limits import parse_size
    from wattstep.train.child.local_machine import this_machine

    names = (workloads,) if isinstance(workloads, str) else tuple(workloads)
    if not names:
        raise InvalidValueError("there is nothing to sweep: give workloads", id="nothing-to-sweep")
    for name in names:
        suite.check_name(name)
    shared = {
        "least_steps": SWEEP_STEPS, "trace": "none", "engine": next(iter(engines), "torch"), **settings
    }  # fmt: skip
    plan = SweepPlan(
        settings=_settings(workload=names[0], **shared),
        workloads=names,
        batches=tuple(batches),
        threads=tuple(threads),
        precisions=tuple(precisions),
        engines=tuple(engines) if len(engines) > 1 else ONE_ENGINE,
        repeats=repeats,
        memory_limit=None if memory_limit is None else parse_size(memory_limit),
        cooldown=cooldown,
    )
    listener = listener or _Unwatched()
    folder = SweepFolder(Path(out), plan, this_machine(plan.settings.processor), listener.warns)
    try:
        sweep_here(plan, folder, listener)
    finally:
        folder.close()
    return load_sweep(Path(out), warn=listener.warns).to_dict()


def tune(
    what: RunPath,
    arguments: Sequence[str] = (),
    *,
    goal: str = "time",
    batch_size: int | None = None,
    memory_limit: str | None = None,
    allow: Sequence[str] = (),
    turn: Sequence[str] | None = None,
    threads: Sequence[int] = (),
    cores: Sequence[str] = (),
    module: bool = False,
    step_marker: str = "optimizer",
    power_model: str | None = None,
    out: RunPath | None = None,
    on_progress: Callable[[str, float], None] | None = None,
    **settings: Any,
) -> TuneReport:
    """Finds settings under which steps here take less time or energy and learn the same.

    >>> tuned = wattstep.tune("lenet", turn=["threads", "allocator"])  # doctest: +SKIP
    >>> tuned.tuned.chosen, tuned.command                             # doctest: +SKIP

    Args:
        what: A workload of the suite, or a training script (a name that ends in ".py", or a `module`).
        arguments: The script's own.
        goal: What is to be the least: "time" or "energy".
        batch_size: Of a workload; 4 where it is not given.
        memory_limit: Of each process that trains, e.g. "8GiB".
        allow: What may change what is learnt: "precision", "losses".
        turn: What is turned, e.g. ["threads", "channels-last"]; None: all that can be.
        threads: Numbers of threads that are tried; none: 1, 2, 4, ... up to the cores.
        cores: Sets of cores that are tried, e.g. ["0-3", "4-7"]; none: each kind of core.
        module: Whether `what` is a module, as of `python -m`.
        step_marker: What ends a step of a script.
        power_model: Models power where no sensor tells it, e.g. "vcpu".
        out: Folder of the tune; one that was begun continues. None: a new one below `tunes/`.
        on_progress: Told the stage, and the share that is done (0 to 1).
        settings: Of a workload: any other field of `wattstep.train.settings.TrainingSettings`.

    Returns:
        The report: `tuned.chosen` is None where the default is to be kept.

    Raises:
        InvalidValueError: It cannot be tuned, or the folder is another's.
        RecordingError: The folder cannot be written.
    """
    from wattstep.store.files import new_name
    from wattstep.tune.space import parse_allowed, parse_turned
    from wattstep.tune.tuning import Question, check_given, goal_of, settings_of
    from wattstep.tune.tuning import tune as search

    given = {} if batch_size is None else {"batch_size": batch_size}
    question = Question(
        settings=settings_of(
            str(what), arguments, module=module, step_marker=step_marker, power_model=power_model,
            **given, **settings,
        ),
        goal=goal_of(goal),
        limit=_limit(memory_limit, here=True),
        allow=parse_allowed(",".join(allow)),
        given=check_given(threads, cores),
        turned=parse_turned(None if turn is None else ",".join(turn)),
    )  # fmt: skip
    folder = Path("tunes", new_name(Path(question.name).stem)) if out is None else Path(out)
    return search(question, folder, on_progress or (lambda stage, share: None), _warn)


def open_execution_host(target: str | None, say: Callable[[str], None]) -> ExecutionHost:
    """Opens the host on which a training runs; devices' code is loaded only where one is named.

    Args:
        target: As given to `--target`, or None.
        say: Takes a line for the user: what is installed, what stays there.

    Raises:
        WattstepError: The device cannot be reached, or nothing can run there.
        UnrecordedInterrupt: The user stopped it.
    """
    from wattstep.train.execution_hosts import LocalHost, is_elsewhere

    if target is None or not is_elsewhere(target):
        return LocalHost()
    from wattstep.remote.execution_hosts import open_device

    return open_device(target, say)


class _Unwatched:
    """Nobody is told where a sweep is; warnings are warnings."""

    def begins(self, configuration: object, done: int, total: int) -> None:
        """Not told."""

    def progresses(self, progress: Progress) -> None:
        """Not told."""

    def ends(self, outcome: Outcome, done: int, total: int, left_s: float | None) -> None:
        """Not told."""

    def warns(self, text: str) -> None:
        """As a warning."""
        _warn(text)


def _settings(**fields: Any) -> TrainingSettings:
    from dataclasses import fields as fields_of

    from wattstep.train.settings import TrainingSettings

    known = [each.name for each in fields_of(TrainingSettings)]
    if unknown := [name for name in fields if name not in known]:
        raise InvalidValueError(
            f"there is no setting {', '.join(unknown)}: {', '.join(known)}", id="unknown-setting"
        )
    return TrainingSettings(**fields)


def _limit(text: str | None, *, here: bool) -> MemoryLimit | None:
    from wattstep.train.child.limits import find_limit, limit_elsewhere, parse_size

    if text is None:
        return None
    return find_limit(parse_size(text)) if here else limit_elsewhere(parse_size(text))


def _unheard(progress: Progress) -> None:
    """Nobody is told where a training is."""


def _warn(text: str) -> None:
    from wattstep.record.recorder import RecordingWarning

    warnings.warn(text, RecordingWarning, stacklevel=4)
