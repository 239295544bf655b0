"""What is looked at after a fault, and told of it."""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.waiting import PATIENCE_S, gone

import wattstep
from wattstep.errors import WattstepError
from wattstep.store.lock import is_recording

MARK: Final = "WATTSTEP_TORTURED"  # in the environment of all that a fault starts
SAMPLED: Final = "process.resident_memory"  # on every machine, at every tick
LAST_SECOND_NS: Final = 10**9


@dataclass(kw_only=True)
class Told:
    """What became of one fault.

    Attributes:
        opened: Whether the run could be read afterwards; else it was refused by name.
        lost_steps: Steps that the trainer had told and the run lacks.
        lost_s: Time before the fault of which there are no samples: all of the training, where there is none.
    """

    opened: bool
    lost_steps: int = 0
    lost_s: float = 0.0


class UnexplainedError(AssertionError):
    """A promise that was not kept."""


def expect(kept: bool, words: str) -> None:
    """A promise.

    Raises:
        UnexplainedError: It was not kept.
    """
    if not kept:
        raise UnexplainedError(words)


def wait_for(done: Callable[[], object], words: str, seconds: float = PATIENCE_S) -> None:
    """Waits for something that is promised."""
    until = time.monotonic() + seconds
    while not done():
        expect(time.monotonic() < until, words)
        time.sleep(0.02)


def look(run: Path, last: tuple[int, int] = (-1, 0), *, samples: bool = True) -> Told:
    """Opens a run after a fault, and holds it against what its trainer told.

    Args:
        run: Its folder.
        last: Index and end of the last step that was told.
        samples: Whether they are promised up to the last second.
    """
    expect(not is_recording(run), "it counts as recording still")
    opened = wattstep.load(run)
    steps = opened.tables.steps()
    index = steps.index.tolist()
    expect(index == list(range(len(index))), f"steps are {index[:3]} ... {index[-3:]}")
    document = opened.document()
    expect(document["failures"] == [], f"failures: {document['failures']}")
    expect(not (run / "journal").exists(), "its journal is left")
    lost_s = 0.0
    if last[1]:
        begun = steps.start_ns[:1].tolist()
        sampled = opened.tables.samples().get(SAMPLED)
        seen = begun if sampled is None else [*begun, *sampled[0][-1:].tolist()]
        lost_s = max((last[1] - seen[-1]) * 1e-9, 0.0) if seen else math.inf
    if samples and last[1]:
        expect(lost_s < LAST_SECOND_NS * 1e-9, f"{lost_s:.2f} s of samples are lost")
    return Told(opened=True, lost_steps=max(last[0] + 1 - len(index), 0), lost_s=lost_s)


def refused_or(run: Path, last: tuple[int, int] = (-1, 0)) -> Told:
    """As `look`; a run that is refused in one line counts as kept, too."""
    try:
        return look(run, last, samples=False)
    except WattstepError as error:
        expect("\n" not in str(error), f"more than a line: {error}")
        return Told(opened=False)


def left_behind(mark: str) -> list[str]:
    """Processes of a fault that still live."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                if f"{MARK}={mark}".encode() in (entry / "environ").read_bytes():
                    found.append(f"{entry.name} {(entry / 'cmdline').read_bytes()[:80]!r}")
    return [each for each in found if not gone(int(each.split()[0]))]
