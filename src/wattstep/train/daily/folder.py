"""The folder of a daily training: its settings, the server's model, and the days of each batch size."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypedDict, cast

from wattstep.errors import DamagedRunError, InvalidValueError
from wattstep.schema.daily_report import PretrainedFacts
from wattstep.store.folder import read_plain, replacing
from wattstep.store.lock import lock_folder, not_there, take_back
from wattstep.train.daily.settings import DailySettings

SETTINGS = "daily.json"
WEIGHTS = "pretrained.pt"
SERVER = "pretrained.json"
LABELS = "labels.json"
DAYS = "days.json"
REPORT = "report.html"
LOCK = "daily.lock"
_BEGUN = (SETTINGS, LOCK)  # made before anything is trained


class DayRow(TypedDict, total=False):
    """A day that is done: correctness of each sample as text of "1" and "0", and where it was recorded.

    Day 0 is the server's model: it has `weights_sha256`, and nothing of a training.
    """

    day: int
    weights_sha256: str
    run: str
    begin_ns: int
    end_ns: int
    steps: int
    samples: int
    loss: float | None
    held_out: str
    remembered: str
    new: str | None


class ExampleRow(TypedDict):
    """A sample that is a picture; `pixels` in base64, the rest as `schema.daily_report.LabelExample`."""

    kind: str
    label: int
    truth: int
    probability: float
    pixels: str
    shape: list[int]


class DayLabels(TypedDict):
    """Labels of a day's samples by a labeler, in their order.

    Attributes:
        classes: Class of each, -1 where it got none.
        truth: True class of each.
        statuses: What each is, as text: "l" labeled, "u" unknown, "a" withheld.
        right: Whether the class is the true one, of those that were labeled, as text of "1" and "0".
        first_choice: Whether the server's model, before any training here, is right, of all.
        run: Where labeling was recorded.
        begin_ns, end_ns: Of labeling, with its features; on the first day with making its rules.
        examples: Some of the samples, on days that the page shows.
    """

    classes: list[int]
    truth: list[int]
    statuses: str
    right: str
    first_choice: str
    run: str
    begin_ns: int
    end_ns: int
    examples: list[ExampleRow]


def kinds_of(day: DayLabels) -> list[str]:
    """What became of each sample of a day: a field of `schema.daily_report.LabelCounts`."""
    without = {"u": "unknown", "a": "withheld"}
    told = zip(day["statuses"], day["classes"], day["truth"], strict=True)
    return [
        without.get(status) or ("right" if label == truth else "wrong")
        for status, label, truth in told
    ]


class DailyFolder:
    """Everything is written whole, so that a command that was killed can be given again.

    Args:
        path: The folder; made by `open`.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.weights = path / WEIGHTS
        self.lock: int | None = None  # the descriptor that keeps the folder to one command
        self._made: tuple[Path, ...] = ()

    def open(self, settings: DailySettings) -> None:
        """Makes the folder, or checks that it is of the same settings; holds it until `close`.

        Raises:
            InvalidValueError: It belongs to another daily training, or cannot be made.
            RunExistsError: Another command trains in it.
        """
        try:
            self._check_place()
            self._made = not_there(self.path, _BEGUN)
            self.path.mkdir(parents=True, exist_ok=True)
            if self.lock is None:
                self.lock = lock_folder(self.path, LOCK, "another wattstep daily")
            self._settle(asdict(settings))
        except OSError as error:
            raise InvalidValueError(f"{self.path} cannot be made: {error.strerror}") from error

    def take_back(self) -> None:
        """Of a refused training: what `open` made goes, unless more came into it."""
        take_back(self.path, _BEGUN, self._made)

    def close(self) -> None:
        """Lets go of the folder."""
        if self.lock is not None:
            os.close(self.lock)
            self.lock = None

    def _check_place(self) -> None:
        """Refuses what is no folder, or one that is full of something else."""
        if not self.path.exists() or (self.path / SETTINGS).exists():
            return
        if not self.path.is_dir() or any(path.name != LOCK for path in self.path.iterdir()):
            raise InvalidValueError(
                f"{self.path} holds something else: choose another --out", id="not-a-daily-folder"
            )

    def _settle(self, document: dict[str, Any]) -> None:
        """Writes the settings, where there are not others that count."""
        if (self.path / SETTINGS).exists():
            # A folder of an older wattstep lacks settings that it did not have.
            unset = asdict(DailySettings(workload=document["workload"]))
            settings = {**unset, **read(self.path / SETTINGS)}
            other = [key for key in document if settings.get(key) != document[key]]
            if other and self.server() is not None:
                raise InvalidValueError(
                    f"{self.path} holds a daily training with another {', '.join(other)}: "
                    "choose another --out, or remove it first",
                    id="other-settings",
                )
        write(self.path / SETTINGS, document)

    def settings(self) -> DailySettings:
        """Settings that it was made for.

        Raises:
            DamagedRunError: It is no daily training.
        """
        return DailySettings(**read(self.path / SETTINGS))

    def server(self) -> PretrainedFacts | None:
        """Result of the pre-training, or None where it is not done."""
        done = (self.path / SERVER).exists() and self.weights.exists()
        return cast(PretrainedFacts, read(self.path / SERVER)) if done else None

    def keep_server(self, document: PretrainedFacts) -> None:
        """After the weights: with this the pre-training is done."""
        write(self.path / SERVER, document)

    def labels(self) -> list[DayLabels] | None:
        """Labels of each day by the labeler, or None where they are not there.

        Raises:
            DamagedRunError: They lack what a page shows.
        """
        path = self.path / LABELS
        days: list[DayLabels] | None = read(path)["days"] if path.exists() else None
        if any("truth" not in day for day in days or ()):
            raise DamagedRunError(
                f"{path} is of an older wattstep: remove it, and the same command labels again",
                id="older-labels",
            )
        return days

    def keep_labels(self, days: list[DayLabels]) -> None:
        """Labels of all days: what is trained on after this is the same, however often it is begun again."""
        write(self.path / LABELS, {"days": days})

    def batch(self, size: int) -> Path:
        """The folder of a batch size."""
        return self.path / f"batch-{size}"

    def batches(self) -> list[int]:
        """Those that have begun."""
        names = [path.parent.name for path in self.path.glob(f"batch-*/{DAYS}")]
        return sorted(int(name.removeprefix("batch-")) for name in names)

    def days(self, size: int) -> list[DayRow]:
        """The days that are done, the server's model as day 0."""
        path = self.batch(size) / DAYS
        return list(read(path)["days"]) if path.exists() else []

    def keep_days(self, size: int, days: list[DayRow]) -> None:
        """After the checkpoint of the last of them, which then replaces those before it."""
        write(self.batch(size) / DAYS, {"days": days})
        last = self.checkpoint(size, days[-1]["day"])
        for path in self.batch(size).glob("day-*.pt"):
            if path != last:
                path.unlink()

    def checkpoint(self, size: int, day: int) -> Path:
        """Checkpoint of the training after that day."""
        return self.batch(size) / f"day-{day:03d}.pt"

    @property
    def labeling(self) -> Path:
        """The folder of runs that labeled."""
        return self.path / "labeling"


def new_run(folder: Path) -> Path:
    """The next run in a folder: one for each time that the command went on."""
    number = 1
    while (path := folder / f"run-{number}").exists():
        number += 1
    return path


def read(path: Path) -> dict[str, Any]:
    """A JSON document.

    Raises:
        DamagedRunError: It cannot be read.
    """
    try:
        document = json.loads(read_plain(path))
    except (OSError, ValueError) as error:
        raise DamagedRunError(f"{path} cannot be read: {error}", id="unreadable-daily") from error
    if not isinstance(document, dict):
        raise DamagedRunError(f"{path} does not hold what it should")
    return document


def write(path: Path, document: Mapping[str, Any]) -> None:
    """Replaces a JSON document as a whole."""
    with replacing(path) as file:
        file.write(json.dumps(document, indent=1).encode())
