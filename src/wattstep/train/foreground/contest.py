"""Lets the foreground job and the training run alone and beside each other, in turns."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from wattstep.errors import RecordingError
from wattstep.record.recorder import Recorder
from wattstep.schema.processes import child_command
from wattstep.store.folder import replacing
from wattstep.train.foreground.frames import PERIOD_NS
from wattstep.train.foreground.job import ForegroundJob

SECONDS = 5.0  # alone and beside the training, each
ROUNDS = 5  # at most: as many as there are steps in so many seconds
WHOLE_STEPS = 2.2  # that a round lasts at least, so that one lies within it even if slowed
SETTLING_FRAMES = 6  # 0.1 s: threads of the framework may spin for a while after their last work
NAME = "foreground"  # of the rest in the run, and of the table

Rows = list[dict[str, Any]]


def measure_foreground(
    recorder: Recorder, step: Callable[[], object], *, seconds: float = SECONDS, nice: int = 0
) -> None:
    """Measures how the training delays the job, and what the job does to the training.

    In each round the training runs alone, then the job alone, then both: what changes slowly
    (temperature, other processes) meets all three. Nothing of it is part of the recorded steps.
    The frames and the steps are written into the run as `foreground.parquet`.

    Args:
        recorder: Is recording.
        step: Takes a training step that nobody records.
        seconds: For each of the three, over all rounds; at least one step a round.
        nice: Of the training's threads from here on; the job keeps that of the process.

    Raises:
        RecordingError: The job cannot be run.
    """
    with recorder.exclude(NAME):
        with ForegroundJob() as job:
            renice(nice)
            rows = Contest(job, step).run(seconds)
            facts = {"loops": job.loops, "nice": nice, "seconds": seconds}
        _write(recorder.path, {"rows": rows, "facts": facts})


class Contest:
    """Rounds of the three; `run` gives their rows.

    Args:
        job: Has begun.
        step: As in `measure_foreground`.
        clock: Monotonic, in ns.
    """

    def __init__(
        self,
        job: ForegroundJob,
        step: Callable[[], object],
        clock: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        self._job = job
        self._step = step
        self._clock = clock
        self._rows: Rows = []

    def run(self, seconds: float) -> Rows:
        """Rows of frames and steps, each with its round and where it took place."""
        self._step()
        begin = self._clock()
        self._step()
        step_ns = self._clock() - begin
        rounds = max(1, min(ROUNDS, int(seconds * 1e9 / max(step_ns, 1))))
        length_ns = round(max(seconds * 1e9 / rounds, WHOLE_STEPS * step_ns))
        count = SETTLING_FRAMES + max(1, round(length_ns / PERIOD_NS))
        for number in range(rounds):
            self._training_alone(number, length_ns)
            self._job.begin(count)
            self._keep_frames(number, "alone")
            self._job.begin(count)
            while not self._job.done():
                self._timed_step(number, "beside")
            self._rows.pop()  # part of the last step ran after the last frame, without the job
            self._keep_frames(number, "beside")
        return self._rows

    def _training_alone(self, number: int, length_ns: int) -> None:
        self._step()  # finds back to its habits after the pause
        end = self._clock() + length_ns
        while True:
            self._timed_step(number, "alone")
            if self._clock() >= end:
                return

    def _timed_step(self, number: int, where: str) -> None:
        begin = self._clock()
        self._step()
        taken = self._clock() - begin
        self._add(number, where, "step", begin, None, taken)

    def _keep_frames(self, number: int, where: str) -> None:
        for begin, woken, done in self._job.frames()[SETTLING_FRAMES:]:
            skipped = done < 0
            self._add(
                number, where, "frame", begin, None if skipped else woken, None if skipped else done
            )

    def _add(
        self, number: int, where: str, kind: str, begin: int, woken: int | None, done: int | None
    ) -> None:
        self._rows.append(
            {
                "round": number,
                "where": where,
                "kind": kind,
                "begin_ns": begin,
                "woken_ns": woken,
                "done_ns": done,
            }
        )


def renice(nice: int, tasks: Path = Path("/proc/self/task")) -> None:
    """Gives every thread of this process that nice value; threads to come inherit it.

    Raises:
        RecordingError: It is not permitted: only an administrator may lower it.
    """
    if not nice:
        return
    try:
        for task in tasks.iterdir():
            os.setpriority(os.PRIO_PROCESS, int(task.name), nice)
    except OSError as error:
        raise RecordingError(f"--nice {nice}: {error.strerror}") from error


def _write(run: Path, document: dict[str, Any]) -> None:
    """In a child: pyarrow stays out of the training process."""
    done = subprocess.run(
        child_command("wattstep.train.foreground.contest:write_table", str(run.absolute())),
        input=json.dumps(document).encode(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        check=False,
        env=dict(os.environ),
    )
    if done.returncode != 0:
        words = done.stderr.decode(errors="replace").strip().splitlines() or ["no reason given"]
        raise RecordingError(f"{NAME}.parquet cannot be written: {words[-1]}")


def write_table() -> int:
    """Entry of the child: the folder as argument, the rows on standard input."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from wattstep.store.tables import FOREGROUND

    document = json.load(sys.stdin)
    facts = {key: str(value) for key, value in document["facts"].items()}
    table = pa.Table.from_pylist(document["rows"], schema=FOREGROUND.with_metadata(facts))
    path = Path(sys.argv[1]) / f"{NAME}.parquet"
    with replacing(path) as file:
        pq.write_table(table, file, compression="zstd")
    return 0
