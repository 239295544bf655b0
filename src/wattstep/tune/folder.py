"""The folder of a tune: what was asked, and each turn on the disk before the next, so that a killed one goes on."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from wattstep.errors import DamagedRunError, InvalidValueError
from wattstep.schema.configuration import unlike_machines
from wattstep.store.files import write_whole
from wattstep.store.folder import Folder, read_plain, replacing
from wattstep.store.lock import lock_folder
from wattstep.train.child.local_machine import this_machine, unlike, versions
from wattstep.train.child.measuring import recording_errors
from wattstep.tune.processes import turn_of
from wattstep.tune.turns import Ask, Bench, Turn

TUNE: Final = "tune.json"
TURNS: Final = "turns.jsonl"
PLAN: Final = "plan.json"
LOCK: Final = "tune.lock"
MOST_TURNS: Final = 1 << 26  # bytes
SCHEMA: Final = 1


class TuneFolder:
    """A tune's folder while it runs; what it measured before is not measured again.

    The search is the same for the same turns, so that those which are there bring it to where it was.

    Args:
        path: The folder; made where it is not there.
        asked: What is tuned and how, JSON-ready.
        processor: As `this_machine` takes it.
        warn: Told of what changed since, and of turns that cannot be read.

    Raises:
        InvalidValueError: It holds something else, or another tune.
        RunExistsError: Another tune is writing into it.
        RecordingError: It cannot be written.
    """

    def __init__(
        self, path: Path, asked: Mapping[str, Any], processor: str, warn: Callable[[str], None]
    ) -> None:
        self.path = path
        with ExitStack() as opened:
            opened.enter_context(recording_errors(path))
            if (path / "run.json").exists():
                raise InvalidValueError(
                    f"{path} is a run: --out names the folder of the tune", id="run-as-folder"
                )
            path.mkdir(parents=True, exist_ok=True)
            opened.callback(os.close, lock_folder(path, LOCK, "another tune"))
            self._begin(asked, processor, warn)
            self.turns = _read(path / TURNS, warn)
            with Folder(path) as folder, folder.keep(TURNS) as file:
                self._lines = os.dup(file.fileno())
            opened.callback(os.close, self._lines)
            size = os.fstat(self._lines).st_size
            if size and os.pread(self._lines, 1, size - 1) != b"\n":  # cut off by a power cut
                write_whole(self._lines, b"\n")
            self._open = opened.pop_all()

    def __enter__(self) -> TuneFolder:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._open.close()

    def remember(self, name: str, look: Callable[[], float]) -> float:
        """What a look at the machine gave when the tune began.

        Raises:
            RecordingError: The disk is full, or gone.
        """
        if name not in self.turns:
            self._append(name, Turn(seconds=(look(),)))
        return self.turns[name].seconds[0]

    def add(self, ask: Ask, turn: Turn) -> None:
        """Appends a turn; it is on the disk when this returns.

        Raises:
            RecordingError: The disk is full, or gone.
        """
        self._append(ask.key, turn)

    def _append(self, key: str, turn: Turn) -> None:
        line = json.dumps({"ask": key, **asdict(turn)}) + "\n"
        with recording_errors(self.path):
            write_whole(self._lines, line.encode("ascii"))
            os.fsync(self._lines)
        self.turns[key] = turn

    def _begin(self, asked: Mapping[str, Any], processor: str, warn: Callable[[str], None]) -> None:
        machine, now = this_machine(processor), versions()
        place = self.path / TUNE
        if place.exists():
            try:
                before = json.loads(read_plain(place))
                now_asked = json.loads(
                    json.dumps(asked)
                )  # a list where a tuple was, as in the file
                problems = unlike(_flat(before["asked"]), _flat(now_asked)) + unlike_machines(
                    before["machine"], machine
                )
                changed = unlike(before["versions"], now)
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise DamagedRunError(f"{place} is damaged: tune into another --out") from error
            if problems:
                raise InvalidValueError(
                    f"{self.path} holds another tune ({'; '.join(problems)}): give the same settings, or another "
                    "--out",
                    id="other-settings",
                )
            for change in changed:
                warn(f"since this tune began, {change}: turns before and after stand side by side")
            return
        document = {
            "schema": SCHEMA,
            "asked": dict(asked),
            "machine": dict(machine),
            "versions": now,
        }
        with replacing(place) as file:
            file.write(json.dumps(document, indent=1).encode() + b"\n")


def _flat(asked: Mapping[str, Any]) -> dict[str, Any]:
    """What was asked with each setting by its own name, so that a difference is told by it."""
    return {
        **asked.get("settings", {}),
        **{name: asked[name] for name in asked if name != "settings"},
    }


class KeptBench:
    """A bench whose turns are kept in a folder, and taken from there where they are.

    Args:
        folder: Of the tune.
        bench: Makes those that are not there.
    """

    def __init__(self, folder: TuneFolder, bench: Bench) -> None:
        self._folder, self._bench = folder, bench

    def measure(self, ask: Ask) -> Turn:
        """As `Bench.measure`."""
        known = self._folder.turns.get(ask.key)
        if known is not None:
            return known
        turn = self._bench.measure(ask)
        self._folder.add(ask, turn)
        return turn


def _read(path: Path, warn: Callable[[str], None]) -> dict[str, Turn]:
    """Turns by what was asked; a line that is damaged is passed over, and measured again."""
    turns: dict[str, Turn] = {}
    if not path.exists():
        return turns
    for number, line in enumerate(read_plain(path, MOST_TURNS).splitlines(), 1):
        try:
            document = json.loads(line)
            turns[str(document["ask"])] = turn_of(document)
        except (ValueError, KeyError, TypeError, AttributeError):
            if line.strip():
                warn(f"{path}, line {number} cannot be read: that turn is measured again")
    return turns
