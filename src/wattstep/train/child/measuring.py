"""Measurement of a configuration: a child under a limit, its run, and its outcome."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Protocol

import numpy as np

from wattstep.errors import DamagedRunError, RecordingError, WattstepError
from wattstep.run import load
from wattstep.schema.figure import Figure, missing
from wattstep.schema.metrics import OWN
from wattstep.schema.outcome import Configuration, Outcome
from wattstep.train.child.child import Ending, tail
from wattstep.train.child.exporting import exported_before
from wattstep.train.child.limits import MemoryLimit, enforced
from wattstep.train.child.local import heard_by, start_training
from wattstep.train.child.local_machine import this_machine, versions
from wattstep.train.child.verdict import judge
from wattstep.train.environment.device_state import parse_state
from wattstep.train.progress import Progress
from wattstep.train.settings import TrainingSettings

CONTINUES: Final = "the same command continues when that is mended"
FIGURES = {
    "step_time": "s",
    "peak_memory": "B",
    "throughput": "samples/s",
    "energy_per_sample": "J",
    "mean_power": "W",
}


@dataclass(frozen=True, kw_only=True)
class Listener:
    """Listener of a child's messages while it trains."""

    on_progress: Callable[[Progress], None]
    on_warning: Callable[[str], None]


class Measure(Protocol):
    """Trains one configuration and says what became of it; tests have one that does not train."""

    def __call__(
        self,
        configuration: Configuration,
        settings: TrainingSettings,
        limit: MemoryLimit | None,
        listener: Listener,
    ) -> Outcome:
        """See `measure`."""
        ...


def measure(
    configuration: Configuration,
    settings: TrainingSettings,
    limit: MemoryLimit | None,
    listener: Listener,
) -> Outcome:
    """Trains in a fresh process, which ends if this one does.

    What the child wrote stays beside its run, as NAME.txt, unless it trained.

    Args:
        configuration: The configuration to measure.
        settings: How; its run goes to `out`.
        limit: How much memory it may have.
        listener: Who is told.

    Raises:
        RecordingError: The limit cannot be set, or the disk is full.
    """
    run = Path(settings.out or configuration.name)
    output = run.with_name(f"{run.name}.txt")
    started, began_s = time.time(), time.monotonic()
    with recording_errors(run.parent):
        file = output.open("w+b")
    with file, enforced(limit) as cage, ExitStack() as stack:
        try:
            settings = stack.enter_context(exported_before(settings, limit))
        except (WattstepError, KeyboardInterrupt) as error:
            ending = _without_export(error)
        else:
            cores = parse_state(configuration.state).cores
            child = start_training(settings, cage, output=file, ends_with_us=True, cores=cores)
            ending = child.follow(heard_by(listener.on_progress, listener.on_warning))
        status, reason, evidence = judge(ending, cage, tail(file), began_s)
    if status == "trained" or not output.stat().st_size:
        output.unlink()
    outcome = Outcome(
        configuration=configuration,
        status=status,
        reason=reason,
        evidence=evidence,
        run=run.name if (run / "run.json").exists() else None,
        limit="" if limit is None else limit.described,
        started=started,
        ended=time.time(),
        machine=this_machine(settings.processor),
        versions=versions(),
    )
    return _with_its_run(outcome, run) if status == "trained" else outcome


def _without_export(error: WattstepError | KeyboardInterrupt) -> Ending:
    """The end of a training that came to no process of its own."""
    if isinstance(error, KeyboardInterrupt):
        return Ending(code=130, interrupted=True)
    return Ending(code=2, error=str(error), kind=type(error).__name__)


def _with_its_run(outcome: Outcome, run: Path) -> Outcome:
    """Outcome with what the table of what fits shows, and the notes of its run."""
    try:
        opened = load(run)
        metrics, notes = opened.metrics, opened.info.notes
        steps = opened.tables.steps()
        finite = bool(np.isfinite(steps.loss).all())
        finite &= steps.thinned is None or bool(steps.thinned.losses.all())
    except DamagedRunError as error:
        figures = {name: missing(unit, str(error)).to_dict() for name, unit in FIGURES.items()}
        return replace(outcome, figures=figures)
    results = {name: metrics.get(name) for name in (*FIGURES, *OWN)}
    evidence = replace(outcome.evidence, notes=(*outcome.evidence.notes, *notes))
    return replace(
        outcome,
        evidence=evidence,
        finite=finite,
        figures={name: it.to_dict() for name, it in results.items() if isinstance(it, Figure)},
    )


@contextmanager
def recording_errors(path: Path) -> Iterator[None]:
    """Errors of the system in words of ours, which say that the sweep is not lost.

    Raises:
        RecordingError: Instead of an `OSError`.
    """
    try:
        yield
    except OSError as error:
        raise RecordingError(
            f"cannot write into {path}: {error.strerror or error}; {CONTINUES}"
        ) from error
