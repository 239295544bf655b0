"""Waits before a run and after it: until the machine is steady, and idle for its power at rest."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from wattstep.record.recorder import Recorder
from wattstep.schema.condition_documents import SteadinessFacts
from wattstep.schema.journal import JOURNAL
from wattstep.train.environment.steadiness import RESTING, Criterion
from wattstep.train.environment.watch import Watch

LOOK_EVERY_S: Final = 1.0
MOST_S: Final = 600.0
SETTLING_S: Final = 0.2  # threads of the framework may spin for a while after their last work
BEFORE, AFTER, STABLE = "idle_before", "idle_after", "stabilizing"  # rests in the run

Say = Callable[[float], None]  # how much of the wait is over, from 0 to 1
Sleep = Callable[[float], None]


def stay_idle(
    recorder: Recorder, name: str, seconds: float, say: Say, *, sleep: Sleep = time.sleep
) -> None:
    """Does nothing for a while, as a rest of this name: what the machine takes then is idle power.

    Args:
        recorder: Is recording.
        name: `BEFORE` or `AFTER`.
        seconds: How long.
        say: Told how much of it is over.
        sleep: Waits.
    """
    sleep(SETTLING_S)
    recorder.span(name)
    left = seconds
    while left > 0 and recorder.problem is None:
        say(1 - left / seconds)
        sleep(min(left, LOOK_EVERY_S))
        left -= LOOK_EVERY_S
    recorder.steps.end_span()


def wait_until_steady(
    recorder: Recorder,
    say: Say,
    *,
    criterion: Criterion = RESTING,
    most_s: float = MOST_S,
    sleep: Sleep = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> SteadinessFacts:
    """Waits, as a rest of the run, until temperature and frequency are steady.

    Args:
        recorder: Is recording: what it samples is looked at, wherever its sensors are.
        say: Told how much of the longest wait is over.
        criterion: Criterion of steadiness.
        most_s: The longest wait.
        sleep: Waits.
        clock: Monotonic, in s; that of the samples.

    Returns:
        For the run's conditions: "steady" (None: nothing to judge it by), "waited_s", "criterion",
        "judged" and, where there are some, "silent" (temperatures and clocks that gave nothing) and
        "moving" (what did not become steady).
    """
    watch = Watch(recorder.info.reads, recorder.path / JOURNAL, criterion)
    if not watch.sees:
        recorder.note("--stable: neither temperature nor frequency can be read here: not waited")
        return {"steady": None, "waited_s": 0.0, "criterion": criterion.to_dict(), "judged": []}
    recorder.span(STABLE)
    began = now = clock()
    verdict = watch.look(now)
    while not verdict.steady and now - began < most_s and recorder.problem is None:
        say((now - began) / most_s)
        sleep(LOOK_EVERY_S)
        now = clock()
        verdict = watch.look(now)
    recorder.steps.end_span()
    document: SteadinessFacts = {
        "steady": verdict.steady if verdict.judged else None,
        "waited_s": round(now - began, 1),
        "criterion": criterion.to_dict(),
        "judged": list(verdict.judged),
    }
    if verdict.silent:
        document["silent"] = list(verdict.silent)
    if not verdict.judged:
        recorder.note(f"--stable: {', '.join(verdict.silent)} gave nothing to judge by")
    if not verdict.steady:
        document["moving"] = list(verdict.moving)
        what = "; ".join(verdict.moving)
        recorder.note(f"--stable: not steady after {now - began:.0f} s: {what}")
    return document
