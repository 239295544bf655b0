"""A foreground job: wakes at every frame's deadline and does a fixed amount of work.

Runs as a file of its own in an isolated interpreter (`-I -S`), with the standard library alone, so
that it is small and imports nothing of the user's. It reads the number of frames to play, a line
each time, and answers with a line of JSON once they are played; the end of its input ends it.
"""

from __future__ import annotations

import gc
import json
import signal
import sys
import time
from collections.abc import Callable

PERIOD_NS = 16_666_667  # 60 Hz
WORK_NS = 4_000_000  # of a frame, on a machine that does nothing else
SKIPPED = -1
CALIBRATION_LOOPS = 20_000
CALIBRATION_NS = 300_000_000  # long enough for the core to reach its frequency

Clock = Callable[[], int]


def work(loops: int) -> int:
    """Integer arithmetic without memory or system calls: a linear congruential generator."""
    value = 1
    for _ in range(loops):
        value = (value * 1103515245 + 12345) & 0x7FFFFFFF
    return value


def calibrate(clock: Clock = time.perf_counter_ns, do: Callable[[int], object] = work) -> int:
    """Number of loops that take `WORK_NS`: by the fastest of many tries, which nothing disturbed."""
    begun = clock()
    fastest = 0
    while clock() - begun < CALIBRATION_NS:
        before = clock()
        do(CALIBRATION_LOOPS)
        taken = max(clock() - before, 1)
        fastest = min(fastest or taken, taken)
    return max(1, round(CALIBRATION_LOOPS * WORK_NS / fastest))


def play(
    count: int,
    loops: int,
    clock: Clock = time.perf_counter_ns,
    sleep: Callable[[float], object] = time.sleep,
    do: Callable[[int], object] = work,
) -> list[tuple[int, int, int]]:
    """Plays `count` frames, one period after the other.

    A frame whose whole period went by before the one before it was done is skipped, as a display
    shows the old picture once more.

    Returns:
        For each frame its begin on the monotonic clock, and how long after it the job woke up and
        was done, all in ns; both are `SKIPPED` for one that was skipped.
    """
    frames = []
    begin = clock() + PERIOD_NS
    for _ in range(count):
        now = clock()
        if now >= begin + PERIOD_NS:
            frames.append((begin, SKIPPED, SKIPPED))
        else:
            if now < begin:
                sleep((begin - now) * 1e-9)
            woken = clock()
            do(loops)
            frames.append((begin, woken - begin, clock() - begin))
        begin += PERIOD_NS
    return frames


def main() -> int:
    """Says how much work a frame is, then plays as many as each line of the input asks for."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the training ends it
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # who asked may end before a frame is played
    gc.disable()
    loops = calibrate()
    print(json.dumps({"loops": loops}), flush=True)
    for line in sys.stdin:
        print(json.dumps(play(int(line), loops)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
