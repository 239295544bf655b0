"""Entry of a job on a board: runs detached, writes what it says into files, and its result at the very end."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from wattstep.errors import RecordingError, WattstepError
from wattstep.record.sensors.machine import describe
from wattstep.remote.ssh.bootstrap import ENDING, JOB, NEWS
from wattstep.remote.ssh.description import JobDescription
from wattstep.run.calibration import check_device
from wattstep.schema.outcome import Configuration
from wattstep.schema.processes import Terminated
from wattstep.train.child.limits import MemoryLimit, beyond_machine, find_limit
from wattstep.train.child.local import train_in_child
from wattstep.train.child.local_machine import one_at_a_time
from wattstep.train.child.measuring import Listener, measure
from wattstep.train.doctor import diagnose
from wattstep.train.progress import Progress
from wattstep.train.script import profile_in_child
from wattstep.train.settings import TrainingSettings

RUNS: Final = "runs"  # folder of a job that holds what is brought back
WORK: Final = "work"  # folder of a job in which a script runs
PROGRESS_EVERY_S: Final = 1.0  # a line over the network now and then disturbs nobody
ROOM: Final = 256 * 1024  # reserved for how it ended, so that a full disk does not hide it


class News:
    """The lines of a job, as they happen; a full disk costs lines, never the training.

    Args:
        folder: Of the job.

    Raises:
        OSError: There is no room even for how it ends.
    """

    def __init__(self, folder: Path) -> None:
        self._lines = os.open(folder / NEWS, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._ending = os.open(folder / ENDING, os.O_WRONLY | os.O_CREAT, 0o600)
        os.posix_fallocate(self._ending, 0, ROOM)
        self._stage, self._next_s = "", 0.0

    def progress(self, progress: Progress) -> None:
        """Writes the progress: each stage once at least."""
        now = time.monotonic()
        if progress.stage == self._stage and now < self._next_s:
            return
        self._stage, self._next_s = progress.stage, now + PROGRESS_EVERY_S
        self._say({"progress": progress.to_dict()})

    def warn(self, text: str) -> None:
        """Writes a warning."""
        self._say({"warning": text})

    def _say(self, line: Mapping[str, Any]) -> None:
        with suppress(OSError):  # the disk is full: the recorder finds that out for itself
            os.write(self._lines, json.dumps(line).encode() + b"\n")

    def end(self, ending: Mapping[str, Any]) -> None:
        """Writes the result into the room that was reserved for it."""
        data = json.dumps(ending).encode()
        os.pwrite(self._ending, data, 0)
        os.ftruncate(self._ending, len(data))
        os.fsync(self._ending)


def main() -> int:
    """Entry of the process on the board: the job's folder is its argument.

    What came of it stands in the job's folder; the exit code is for nobody.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    folder = Path(sys.argv[1])
    job = JobDescription.from_dict(json.loads((folder / JOB).read_text(encoding="utf-8")))
    news = News(folder)
    (folder / RUNS).mkdir(exist_ok=True)
    try:
        news.progress(Progress(stage="waiting for its turn"))
        with one_at_a_time(folder.parent.parent):
            ending = KINDS[job.kind](folder, job, news)
    except KeyboardInterrupt:
        ending = {"interrupted": True}
    except WattstepError as error:
        ending = {**error.document()}
    except Terminated as terminated:
        ending = {"error": f"the training was {terminated}", "kind": RecordingError.__name__}
    except BaseException as error:
        news.end({"error": f"a mistake of wattstep's: {error!r}", "kind": "RecordingError"})
        raise
    news.end({"ended": True, **ending})
    return 0


def _limit(size: int | None, news: News) -> MemoryLimit | None:
    """A limit on memory, by the best means that this board has."""
    if size is None:
        return None
    limit = find_limit(size)
    if warning := beyond_machine(limit):
        news.warn(warning)
    return limit


def _settings(folder: Path, job: JobDescription) -> TrainingSettings:
    settings = job.training
    if settings.calibration is not None:
        check_device(settings.calibration, describe())
    if settings.exported is not None:
        settings = replace(settings, exported=str(folder / WORK / settings.exported))
    return replace(settings, out=str(folder / RUNS / job.run))


def _train(folder: Path, job: JobDescription, news: News) -> dict[str, Any]:
    limit = _limit(job.memory_limit, news)
    train_in_child(_settings(folder, job), news.progress, news.warn, limit)
    return {}


def _measure(folder: Path, job: JobDescription, news: News) -> dict[str, Any]:
    limit = _limit(job.memory_limit, news)
    listener = Listener(on_progress=news.progress, on_warning=news.warn)
    configuration = Configuration(**(job.configuration or {}))
    outcome = measure(configuration, _settings(folder, job), limit, listener)
    return {"outcome": outcome.to_dict()}


def _profile(folder: Path, job: JobDescription, news: News) -> dict[str, Any]:
    news.progress(Progress(stage="running"))
    code, _ = profile_in_child(job.script, str(folder / RUNS / job.run))
    return {"code": code}


def _diagnose(folder: Path, job: JobDescription, news: News) -> dict[str, Any]:
    return {"found": diagnose(job.interval or "")}


# What a job may be, and what does it: (folder, job, news) -> what the host is told at the end.
KINDS: Final[Mapping[str, Callable[[Path, JobDescription, News], dict[str, Any]]]] = (
    MappingProxyType(
        {"train": _train, "measure": _measure, "profile": _profile, "diagnose": _diagnose}
    )
)
