"""The folder of a labeling: whatever is in it is whole, and belongs together."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from wattstep.errors import DamagedRunError, InvalidValueError
from wattstep.labeling.progress import Progress, Stretch
from wattstep.labeling.source import Asked, Source
from wattstep.store.folder import read_plain, replacing
from wattstep.store.lock import lock_folder, not_there, take_back

if TYPE_CHECKING:
    from wattstep.labeling.auto_labeler import AutoLabeler
    from wattstep.labeling.processors import Processors

SETTINGS: Final = "label.json"
STATE: Final = "state.npz"
PROGRESS: Final = "progress.json"
REPORT: Final = "report.html"
QUESTIONS: Final = "ask.csv"
LOCK: Final = "label.lock"
PARTS: Final = "labels"
_BEFORE: Final = "before-" + STATE
_BEGUN: Final = (PARTS, SETTINGS, LOCK)  # made before anything is labeled
_FILES: Final = ("data", "labeled", "labels")  # settings that are known by what is in them
_PART = re.compile(r"\d{6,}\.(csv|parquet)")
# `store.folder.replacing` and `state.write` put them beside what they replace.
_HALF_WRITTEN = re.compile(
    rf"\.(label\.json|progress\.json|report\.html|ask\.csv|{_PART.pattern})\.[0-9a-f]{{12}}|state\.npz\.new"
)


class LabelFolder:
    """The folder of a labeling; everything in it is written whole.

    Args:
        path: The folder; made by `open`.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lock: int | None = None
        self._made: tuple[Path, ...] = ()

    def open(self, source: Source) -> None:
        """Makes the folder, or checks that it is of the same settings and data; holds it until `close`.

        Raises:
            InvalidValueError: It holds something else, or cannot be made.
            DamagedRunError: Labels that it had are gone.
            RunExistsError: Another command labels into it.
        """
        try:
            with ExitStack() as undo:
                if self.path.exists() and not (self.path / SETTINGS).exists():
                    self._check_empty()
                self._made = not_there(self.path, _BEGUN)
                (self.path / PARTS).mkdir(parents=True, exist_ok=True)
                self.lock = lock_folder(self.path, LOCK, "another wattstep label")
                undo.callback(self.close)
                document = json.loads(json.dumps(asdict(source.asked)))
                if (self.path / PROGRESS).exists():
                    self._check_settings(document)
                    self._check_data(source)
                _write(self.path / SETTINGS, document)
                self._clear(source.asked)
                undo.pop_all()
        except OSError as error:
            raise InvalidValueError(
                f"{self.path} cannot be made: {error.strerror or error}", id="unwritable-labels"
            ) from error

    def take_back(self) -> None:
        """Of a refused labeling: what `open` made goes, unless more came into it."""
        take_back(self.path, _BEGUN, self._made)

    def close(self) -> None:
        """Lets go of the folder."""
        if self.lock is not None:
            os.close(self.lock)
            self.lock = None

    def _check_empty(self) -> None:
        if not self.path.is_dir() or any(
            each.name not in (LOCK, PARTS) for each in self.path.iterdir()
        ):
            raise InvalidValueError(
                f"{self.path} holds something else: choose another --out", id="not-a-label-folder"
            )

    def _check_settings(self, document: Mapping[str, Any]) -> None:
        there = _read(self.path / SETTINGS)
        other = [name for name in document if there.get(name) != document[name]]
        other = [name for name in other if name not in _FILES]
        if other:
            raise InvalidValueError(
                f"{self.path} holds a labeling with another {', '.join(other)}: "
                "choose another --out, or remove it first",
                id="other-settings",
            )

    def _check_data(self, source: Source) -> None:
        """The labeled set is the same, and the files that were begun are the first ones."""
        progress = self.progress()
        labeled = zip(source.asked.labeled_paths(), progress.labeled, source.labeled, strict=True)
        for path, before, now in labeled:
            if before != now:
                raise InvalidValueError(
                    f"{path} is not the labeled set that {self.path} was begun with: choose another --out; "
                    "further labels come with --answers",
                    id="other-data",
                )
        begun = len(progress.files)
        for table, before, now in zip(
            source.tables, progress.files, source.identities, strict=False
        ):
            if before != now:
                raise InvalidValueError(
                    f"{table.path} is not what was labeled so far: name the {begun} files that {self.path} has labels "
                    "of as they were, in the same order, and further ones behind them; or choose another --out",
                    id="other-data",
                )
        if len(source.tables) < begun:
            raise InvalidValueError(
                f"{self.path} has labels of {begun} files, and {len(source.tables)} are named: name all of them in "
                "the same order, and further ones behind them; or choose another --out",
                id="other-data",
            )

    def _clear(self, asked: Asked) -> None:
        """Takes away what a killed command left half written, and labels of pieces that were not kept.

        Raises:
            DamagedRunError: Labels that were kept are gone.
        """
        for folder in (self.path, self.path / PARTS):
            for each in folder.iterdir():
                if _HALF_WRITTEN.fullmatch(each.name):
                    each.unlink(missing_ok=True)
        kept = {part_name(number, asked) for number in range(self.progress().parts)}
        there = {each.name for each in (self.path / PARTS).iterdir() if _PART.fullmatch(each.name)}
        for name in sorted(kept - there):
            raise DamagedRunError(
                f"{self.path / PARTS / name} is not there, and what comes later rests on it: "
                f"remove {self.path}, and begin again",
                id="lost-labels",
            )
        for name in there - kept:
            (self.path / PARTS / name).unlink()

    def progress(self) -> Progress:
        """What was done so far."""
        if not (self.path / PROGRESS).exists():
            return Progress()
        document = _read(self.path / PROGRESS)
        try:
            document["course"] = tuple(Stretch(**each) for each in document["course"])
            for name in ("files", "rows", "labeled", "told"):
                document[name] = tuple(document[name])
            return Progress(**document)
        except (KeyError, TypeError) as error:
            raise DamagedRunError(f"{self.path / PROGRESS} does not hold what it should") from error

    @property
    def state(self) -> Path:
        """The labeler, as after the last piece or decision that was kept."""
        return self.path / STATE

    def labeler(self, processors: Sequence[str] | Processors | None = None) -> AutoLabeler:
        """The labeler that belongs to the progress; a state that was written after it goes.

        Raises:
            DamagedRunError: There is none.
        """
        from wattstep.labeling import AutoLabeler

        progress, before = self.progress(), self.state.with_name(_BEFORE)
        for path in (self.state, before):
            if path.exists() and _digest(path) == progress.state:
                if path == before:
                    before.replace(self.state)
                return AutoLabeler.load(self.state, processors=processors)
        raise DamagedRunError(
            f"{self.path} has no state after {progress.samples} samples: remove it, and begin again",
            id="lost-state",
        )

    def save(self, labeler: AutoLabeler) -> str:
        """Writes the state, and gives its SHA-256: it counts from when a progress with it is kept."""
        # Of two states one always belongs to the progress that is written.
        if self.state.exists():
            self.state.replace(self.state.with_name(_BEFORE))
        labeler.save(self.state)
        return _digest(self.state)

    def keep(self, progress: Progress) -> None:
        """After labels and state: with this a piece or a decision is done."""
        _write(self.path / PROGRESS, asdict(progress))


def part_name(number: int, asked: Asked) -> str:
    """Name of the file with the labels of a piece."""
    return f"{number:06d}.{asked.format}"


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _read(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(read_plain(path))
    except (OSError, ValueError) as error:
        raise DamagedRunError(
            f"{path} cannot be read: {error}", id="unreadable-labeling"
        ) from error
    if not isinstance(document, dict):
        raise DamagedRunError(f"{path} does not hold what it should")
    return document


def _write(path: Path, document: Mapping[str, Any]) -> None:
    with replacing(path) as file:
        file.write(json.dumps(document).encode())
