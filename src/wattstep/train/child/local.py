"""Trains in a fresh child process, so that peaks of memory are the training's and nobody else's."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import IO

from wattstep.errors import RecordingError, UnrecordedInterrupt, error_of
from wattstep.schema.cores import parse_clusters
from wattstep.schema.processes import ChildNews, ending_words
from wattstep.schema.processes import ends_with_us as passing_on
from wattstep.store.files import new_name
from wattstep.train.allocators import find_allocator
from wattstep.train.child.child import GuardedChild
from wattstep.train.child.exporting import exported_before
from wattstep.train.child.limits import Cage, MemoryLimit, enforced
from wattstep.train.child.watchdog import find_watchdog
from wattstep.train.progress import Progress
from wattstep.train.settings import TrainingSettings


def start_training(
    settings: TrainingSettings,
    cage: Cage,
    *,
    output: IO[bytes] | None = None,
    ends_with_us: bool = False,
    cores: Sequence[int] | None = None,
) -> GuardedChild:
    """A process that trains and records.

    Args:
        settings: With `out`.
        cage: Its limit.
        output: As `GuardedChild` takes it.
        ends_with_us: As `GuardedChild` takes it.
        cores: As `GuardedChild` takes them, where the settings say none.
    """
    arguments = [json.dumps(asdict(settings))]
    return GuardedChild(
        "wattstep.train.training_process:main",
        arguments,
        cage,
        output=output,
        ends_with_us=ends_with_us,
        cores=cores if settings.cores is None else sum(parse_clusters(settings.cores), ()),
        environment={} if settings.allocator is None else find_allocator(settings.allocator),
        watchdog=find_watchdog(settings.processor, settings.memory_reserve),
    )


def heard_by(
    on_progress: Callable[[Progress], None], on_warning: Callable[[str], None]
) -> Callable[[ChildNews], None]:
    """Passes on what a training says to those who want to know."""

    def hear(news: ChildNews) -> None:
        if "progress" in news:
            on_progress(Progress(**news["progress"]))
        elif "warning" in news:
            on_warning(news["warning"])

    return hear


def train_in_child(
    settings: TrainingSettings,
    on_progress: Callable[[Progress], None],
    on_warning: Callable[[str], None],
    limit: MemoryLimit | None = None,
) -> Path:
    """Trains and records in a child process.

    Args:
        settings: The training.
        on_progress: Told where it is.
        on_warning: Told what the child warns of.
        limit: How much memory it may have; see `limits.find_limit`.

    Returns:
        The run.

    Raises:
        WattstepError: The child failed, or was killed.
        KeyboardInterrupt: The user stopped it; what was recorded is kept. Where that is nothing,
            it is an `UnrecordedInterrupt`.
        Terminated: SIGTERM or SIGHUP came; what was recorded is kept.
    """
    out = settings.out or str(Path("runs") / new_name(settings.workload))
    with exported_before(settings, limit) as settings, enforced(limit) as cage:
        child = start_training(replace(settings, out=out), cage)
        with passing_on(child.process):
            ending = child.follow(heard_by(on_progress, on_warning))
        killed_for_memory = bool(cage.oom_kills)
    if ending.interrupted:
        raise KeyboardInterrupt if Path(out, "run.json").exists() else UnrecordedInterrupt
    error = ending.error or ending.problem
    if ending.hung:
        error = "the training process hung and was ended"
    error = ending.starved or error
    if error is not None:
        advice = f" (the run up to then: {out})" if Path(out, "run.json").exists() else ""
        raise error_of(ending.document(), error + advice)
    if ending.code != 0:
        why = f": memory ran out ({limit.described})" if killed_for_memory and limit else ""
        raise RecordingError(_ended(ending.code, out, why))
    return Path(out)


def _ended(code: int, out: str, why: str) -> str:
    advice = (
        f"; what was recorded up to then is kept: wattstep report {out}"
        if Path(out, "run.json").exists()
        else "; nothing had been recorded"
    )
    return f"the training process {ending_words(code)}{why}{advice}"
