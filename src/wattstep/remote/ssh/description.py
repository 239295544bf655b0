"""Description of a job that a host sends to a board, and that its entry there reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from wattstep.schema.outcome import Configuration
from wattstep.train.child.limits import MemoryLimit
from wattstep.train.script import ProfileSettings
from wattstep.train.settings import TrainingSettings

EXPORT: Final = "export"  # the folder of an exported training, in that in which a job runs


@dataclass(frozen=True, kw_only=True)
class JobDescription:
    """A job on a board.

    Attributes:
        kind: "train", "measure", "profile" or "diagnose".
        title: In words, for a list of jobs.
        run: Name of its run; "" for none.
        settings: Of a training or a script, JSON-ready; their output and target are the entry's.
        memory_limit: Bytes that a training may take; None: all.
        configuration: Of a sweep, JSON-ready, where one is measured.
        interval: Between samples, of a diagnosis.
    """

    kind: str
    title: str
    run: str = ""
    settings: dict[str, Any] | None = None
    memory_limit: int | None = None
    configuration: dict[str, Any] | None = None
    interval: str | None = None

    @classmethod
    def of_training(
        cls,
        settings: TrainingSettings,
        out: Path,
        limit: MemoryLimit | None,
        configuration: Configuration | None = None,
    ) -> JobDescription:
        """A training; of a sweep, where a configuration is given."""
        return cls(
            kind="train" if configuration is None else "measure",
            title=f"{settings.workload}, batch {settings.batch_size}",
            run=out.name,
            settings={
                **asdict(settings),
                "out": None,
                "target": None,
                "exported": None if settings.exported is None else EXPORT,
            },
            memory_limit=None if limit is None else limit.size,
            configuration=None if configuration is None else asdict(configuration),
        )

    @classmethod
    def of_script(cls, settings: ProfileSettings, title: str, run: str) -> JobDescription:
        """A script of the user's."""
        return cls(
            kind="profile", title=title, run=run, settings={**asdict(settings), "target": None}
        )

    @classmethod
    def of_diagnosis(cls, interval: str) -> JobDescription:
        """What `doctor` finds there."""
        return cls(kind="diagnose", title="doctor", interval=interval)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready; a board knows a job of ours by "kind" and "title"."""
        return asdict(self)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> JobDescription:
        """The inverse of `to_dict`; digests of what was sent with it are passed over."""
        return cls(**{key: value for key, value in document.items() if key != "sent"})

    @property
    def training(self) -> TrainingSettings:
        """Settings of the training."""
        return TrainingSettings(**(self.settings or {}))

    @property
    def script(self) -> ProfileSettings:
        """Settings of the script."""
        settings = self.settings or {}
        return ProfileSettings(**{**settings, "arguments": tuple(settings["arguments"])})
