"""A canary: a small fixed piece of work before and after a training, which tells whether the machine itself changed."""

from __future__ import annotations

import mmap
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, cast

from wattstep.record.recorder import Recorder
from wattstep.schema.condition_documents import CanaryLook
from wattstep.train.environment import plain_canary
from wattstep.train.environment.plain_canary import (
    BUFFER,
    FACTOR,
    LEAST_PASSES,
    MOST_S,
    PAGE,
    SEED,
    SUMMAND,
    expected,
)

REST: Final = "canary"  # in the run: no part of a step
VERSION: Final = 1  # of the work: only canaries that did the same can be compared
SECONDS: Final = 0.25
BRIEF_S: Final = 0.1  # for trainings that may be short
SHARE: Final = 0.01  # of such a training: the second look takes no more than that, or five passes
LENGTH: Final = 4096  # numbers that stay in a first-level cache
ROUNDS: Final = 1000  # of a pass: each multiplies and adds
WRONG: Final = "the canary's work came out wrong: the processor or the memory of this machine errs"
BEFORE, AFTER = "before", "after"
NUMPY: Final = "numpy"
PLAIN: Final = (
    f"python {sys.version_info[0]}.{sys.version_info[1]}"  # its work is the interpreter's own
)
PLAIN_FILE: Final = Path(plain_canary.__file__)  # travels inside the one-file agent


def watch(recorder: Recorder, when: str, seconds: float = SECONDS, kind: str = NUMPY) -> None:
    """Lets the canary work, as a rest of the run outside of time, energy and peak of the training.

    Args:
        recorder: Is recording; its `canary` gets what was found under this name.
        when: `BEFORE` the first step or `AFTER` the last.
        seconds: As `work` takes it.
        kind: `NUMPY`, or `PLAIN` in a process that must not load numpy for us: somebody's script
            may yet have to say how.
    """
    with recorder.exclude(REST):
        try:
            if kind == NUMPY:
                result = work(seconds)
            else:
                result = cast(CanaryLook, plain_canary.work(seconds, time.perf_counter_ns))
        except (MemoryError, OSError) as error:
            recorder.note(f"no canary {when} the training: {str(error) or 'memory ran out'}")
            return
        finally:
            recorder.steps.end_span()
    if not result["right"]:
        recorder.note(WRONG)
    about = {"version": VERSION, "kind": kind, when: result}
    recorder.about(canary={**recorder.info.canary, **about})


def watch_briefly(recorder: Recorder, when: str, kind: str = NUMPY) -> None:
    """Runs a shorter canary, for trainings whose length nobody knows beforehand, in proportion to it.

    Args:
        recorder: As `watch`.
        when: As `watch`.
        kind: As `watch`.
    """
    seconds, before = BRIEF_S, recorder.info.canary.get("before")
    if when == AFTER and before is not None:
        seconds = min(seconds, SHARE * 1e-9 * (time.perf_counter_ns() - before["at_ns"]))
    watch(recorder, when, seconds, kind)


def work(seconds: float = SECONDS, clock: Callable[[], int] = time.perf_counter_ns) -> CanaryLook:
    """Runs a canary: passes of multiplying and adding numbers in a cache and of copying memory, in turn.

    It needs one core and no library that keeps threads or buffers of its own. The memory comes from
    the kernel and goes back to it, past the allocator of the training, whose habits large blocks
    that are freed would change.

    Args:
        seconds: After so long no further pass begins, once each part has had five, or two seconds.
        clock: Monotonic, in ns; that of the run.

    Returns:
        "at_ns" (begin), "compute_s" and "memory_s" (time of each pass), "right" (whether the
        results were).

    Raises:
        OSError: The kernel gives no memory.
    """
    import numpy as np

    numbers = np.arange(SEED, SEED + LENGTH, dtype=np.uint32)
    factor, summand = np.uint32(FACTOR), np.uint32(SUMMAND)
    first, begin = numbers.copy(), clock()
    compute: list[float] = []
    memory: list[float] = []
    with mmap.mmap(-1, BUFFER) as source, mmap.mmap(-1, BUFFER) as target:
        held = [np.frombuffer(buffer, np.uint8) for buffer in (source, target)]
        held[0][::PAGE] = np.arange(BUFFER // PAGE) % 251
        held[1][::PAGE] = 0  # the kernel's own work on first touch is none of the canary's
        while (took := (clock() - begin) * 1e-9) < MOST_S or not compute:
            if took >= seconds and len(compute) >= LEAST_PASSES:
                break
            start = clock()
            for _ in range(ROUNDS):
                np.multiply(numbers, factor, out=numbers)
                np.add(numbers, summand, out=numbers)
            middle = clock()
            np.copyto(held[1], held[0])
            compute.append(round((middle - start) * 1e-9, 8))
            memory.append(round((clock() - middle) * 1e-9, 8))
        right = bool(np.array_equal(held[1][::PAGE], held[0][::PAGE]))
        held.clear()  # a buffer in use cannot be closed
    right = right and expected(int(first[-1]), len(compute) * ROUNDS) == int(numbers[-1])
    return {"at_ns": begin, "compute_s": compute, "memory_s": memory, "right": right}
