"""Result of a daily training: what each day brought and cost, as terminal, pages and JSON show it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, TypedDict

from wattstep.schema.figure import Figure
from wattstep.schema.run_documents import DataDocument


@dataclass(frozen=True, kw_only=True)
class Day:
    """A day of a daily training; on day 0, that of the server's model, nothing is trained.

    Attributes:
        accuracy: On held-out samples.
        gain: Of accuracy since day 0, on the same samples.
        forgetting: Accuracy on the server's samples on day 0 less that now.
        new_accuracy: On the day's own samples, after training on them.
        loss: Of the day's last step.
        time: From the day's first step to its last.
        energy: Of the span of `time`.
        labeled: Share of the day's samples that the labeler gave a label, and that were trained on.
        labels_right: Of those the share whose label is the true one.
    """

    day: int
    accuracy: Figure
    gain: Figure | None = None
    forgetting: Figure | None = None
    new_accuracy: Figure | None = None
    loss: float | None = None
    steps: int | None = None
    samples: int | None = None
    time: Figure | None = None
    energy: Figure | None = None
    labeled: Figure | None = None
    labels_right: Figure | None = None

    @property
    def figures(self) -> dict[str, Figure]:
        """Its figures by name."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        return {name: value for name, value in values.items() if isinstance(value, Figure)}

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready but for figures; what the day does not have is left out."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class DailyBatch:
    """Days of one batch size.

    Attributes:
        complete: True if all days are done.
        weights_sha256: Of the weights that it began with.
        runs: Folders of its runs.
        total_time: Sum over the days.
        total_energy: Sum over the days.
    """

    batch_size: int
    days: tuple[Day, ...]
    complete: bool = True
    steps_per_day: int = 0
    weights_sha256: str = ""
    runs: tuple[str, ...] = ()
    total_time: Figure | None = None
    total_energy: Figure | None = None

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready but for figures."""
        return {
            "batch_size": self.batch_size,
            "complete": self.complete,
            "steps_per_day": self.steps_per_day,
            "weights_sha256": self.weights_sha256,
            "runs": list(self.runs),
            "days": [day.to_dict() for day in self.days],
            "total_time": self.total_time,
            "total_energy": self.total_energy,
        }


@dataclass(frozen=True, kw_only=True)
class Published:
    """Accuracy by day that somebody published: (day, accuracy) pairs."""

    workload: str
    images_per_day: int
    accuracy: tuple[tuple[int, float], ...]

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        points = [{"day": day, "accuracy": accuracy} for day, accuracy in self.accuracy]
        return {
            "workload": self.workload,
            "images_per_day": self.images_per_day,
            "accuracy": points,
        }


@dataclass(frozen=True, kw_only=True)
class LabelCounts:
    """Samples by what became of them; `right` and `wrong` got a label."""

    right: int = 0
    wrong: int = 0
    unknown: int = 0
    withheld: int = 0

    @property
    def samples(self) -> int:
        """All of them."""
        return self.right + self.wrong + self.unknown + self.withheld


@dataclass(frozen=True, kw_only=True)
class LabeledDays:
    """What was labeled how on some days that follow each other.

    Attributes:
        first, last: Of the days.
        by_class: Samples by true class.
    """

    first: int
    last: int
    by_class: Mapping[int, LabelCounts]

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        counts = {str(name): asdict(each) for name, each in self.by_class.items()}
        return {"first": self.first, "last": self.last, "by_class": counts}


@dataclass(frozen=True, kw_only=True)
class LabelExample:
    """A sample that is a picture.

    Attributes:
        kind: What became of it: a field of `LabelCounts`.
        label: Its label, or the likeliest class of one that got none.
        truth: Its true class.
        probability: That `label` is right, by the labeler.
        pixels: Bytes of shape `shape`: (height, width, 1 or 3).
    """

    day: int
    kind: str
    label: int
    truth: int
    probability: float
    pixels: bytes
    shape: tuple[int, int, int]


@dataclass(frozen=True, kw_only=True)
class DailyLabels:
    """What the labeler made of the new samples of all days.

    Attributes:
        begun_with: Labeled samples that it began with, which neither the server nor a day had.
        labeled, unknown, withheld: Samples by what they got; only the labeled ones are trained on.
        right: Share of the labeled ones whose label is the true one.
        first_choice: Share of all samples for which the first choice of the server's model is right.
        time: That labeling took, with its features and with making its rules.
        energy: Of the span of `time`.
        days: Counts by stretches of days.
        examples: Some samples of some days; none where they are no pictures.
    """

    begun_with: int
    labeled: int
    unknown: int
    withheld: int
    right: Figure
    first_choice: Figure
    time: Figure
    energy: Figure
    days: tuple[LabeledDays, ...] = ()
    examples: tuple[LabelExample, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready but for figures; without pictures."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        del values["examples"]
        return {**values, "days": [each.to_dict() for each in self.days]}


class PretrainedFacts(TypedDict, total=False):
    """Goal and result of the pre-training on the server; `seconds` that it took."""

    goal: str
    accuracy: float
    steps: int
    batch_size: int
    seconds: float
    samples: int
    data: DataDocument


@dataclass(frozen=True, kw_only=True)
class DailyReport:
    """Result of a daily training.

    Attributes:
        title: Of the workload.
        days: Number of days that are planned.
        data: Facts of the data set, as the engine tells them, or None.
        pretrained: Goal and result of the pre-training on the server, by name.
        paper: Published accuracy beside it.
        labels: What the samples were labeled as, where labels were not given.
    """

    folder: str
    workload: str
    title: str
    images_per_day: int
    days: int
    epochs_per_day: int
    batches: tuple[DailyBatch, ...]
    paper: Published
    precision: str = "fp32"
    rate_rule: str = ""
    seed: int = 0
    data: DataDocument | None = None
    pretrained: PretrainedFacts = field(default_factory=PretrainedFacts)
    labels: DailyLabels | None = None

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready but for figures."""
        return {
            "folder": self.folder,
            "workload": self.workload,
            "title": self.title,
            "images_per_day": self.images_per_day,
            "days": self.days,
            "epochs_per_day": self.epochs_per_day,
            "precision": self.precision,
            "rate_rule": self.rate_rule,
            "seed": self.seed,
            "data": self.data,
            "pretrained": dict(self.pretrained),
            **({"labels": self.labels.to_dict()} if self.labels else {}),
            "batches": [batch.to_dict() for batch in self.batches],
            "paper": self.paper.to_dict(),
        }
