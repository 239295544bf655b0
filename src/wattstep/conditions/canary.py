"""A canary: a small fixed piece of work before and after a training, which tells whether the machine itself changed."""

from __future__ import annotations

import mmap
import time
from collections.abc import Callable
from typing import Any, Final

from wattstep.recorder import Recorder

REST: Final = "canary"  # in the run: no part of a step
VERSION: Final = 1  # of the work: only canaries that did the same can be compared
SECONDS: Final = 0.25
LEAST_PASSES: Final = 5  # of each part, however slow the machine is
LENGTH: Final = 4096  # numbers that stay in a first-level cache
ROUNDS: Final = 1000  # of a pass: each multiplies and adds
FACTOR, SUMMAND, SEED = 1664525, 1013904223, 2026  # the generator of Numerical Recipes, mod 2^32
BUFFER: Final = 1 << 24  # bytes that a pass copies: more than the caches of small devices hold
PAGE: Final = 4096
WRONG: Final = "the canary's work came out wrong: the processor or the memory of this machine errs"
BEFORE, AFTER = "before", "after"


def watch(recorder: Recorder, when: str) -> None:
    """Lets the canary work, as a rest of the run outside of time, energy and peak of the training.

    Args:
        recorder: Is recording; its `canary` gets what was found under this name.
        when: `BEFORE` the first step or `AFTER` the last.
    """
    with recorder.apart(REST):
        try:
            found = work()
        except (MemoryError, OSError) as error:
            recorder.note(f"no canary {when} the training: {str(error) or 'memory ran out'}")
            return
        finally:
            recorder.end_rest()
    if not found["right"]:
        recorder.note(WRONG)
    recorder.about(canary={**recorder.info.canary, "version": VERSION, when: found})


def work(
    seconds: float = SECONDS, clock: Callable[[], int] = time.perf_counter_ns
) -> dict[str, Any]:
    """One canary: passes of multiplying and adding numbers in a cache and of copying memory, in turn.

    It needs one core and no library that keeps threads or buffers of its own. The memory comes from
    the kernel and goes back to it, past the allocator of the training, whose habits large blocks
    that are freed would change.

    Args:
        seconds: After so long no further pass begins, once each part has had five.
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
        while clock() - begin < seconds * 1e9 or len(compute) < LEAST_PASSES:
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


def expected(first: int, rounds: int) -> int:
    """What a number becomes in so many rounds, by powers instead of one after the other."""
    power = pow(FACTOR, rounds, (FACTOR - 1) << 32)
    return (power * first + SUMMAND * ((power - 1) // (FACTOR - 1))) % (1 << 32)
