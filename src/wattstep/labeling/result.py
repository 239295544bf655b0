"""What came of a labeling, as terminal, page and JSON show it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from wattstep.labeling.arrays import Floats, moments
from wattstep.labeling.folder import PARTS, LabelFolder
from wattstep.labeling.novelty import LEAST_RECENT
from wattstep.labeling.pacing import Pacer, PaceReport
from wattstep.labeling.placed import PlacementReport, placement_report
from wattstep.labeling.progress import Progress, Stretch
from wattstep.labeling.source import Asked
from wattstep.schema.figure import Figure, Status, missing

if TYPE_CHECKING:
    from wattstep.labeling.auto_labeler import AutoLabeler, Questions

MOST_POINTS = 600  # of the picture of recent samples
OUTLYING = 4.0  # robust standard deviations beyond which values are drawn as if they were there


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A heuristic.

    Attributes:
        name: Kind and features.
        accuracy: Share of its votes that are right, as the label model estimates it.
        voice: What its vote counts beside others that say the same, from 0 to 1.
    """

    name: str
    accuracy: Figure
    voice: float


@dataclass(frozen=True, kw_only=True)
class Point:
    """A recent sample in the plane of the two directions in which such samples differ most."""

    x: float
    y: float
    name: str


@dataclass(frozen=True, kw_only=True)
class LabelingReport:
    """Result of a labeling.

    Attributes:
        folder: Where it lies.
        data: Files that were labeled.
        samples: How many.
        total: Counts of all.
        course: Counts by stretches that follow each other.
        accuracy: Expected share of labels that are right.
        known: Share of all readable samples that are of classes known when they came, as estimated.
        classes: Known classes, as text.
        new_classes: Clusters that nobody has named yet.
        rules: Heuristics of now.
        drifts: After how many samples something had changed.
        asked: Numbers of samples that a person should label, from 0.
        points: Recent samples.
        examples: Features of some samples by what they were labeled as.
        decided: As in `Progress`.
        placement: Which processor did what; None where none were named.
        pace: How a foreground job's frames went beside it; None where none ran.
    """

    folder: str
    data: tuple[str, ...]
    samples: int
    total: Stretch
    course: tuple[Stretch, ...]
    accuracy: Figure
    known: Figure
    classes: tuple[str, ...]
    new_classes: tuple[str, ...]
    rules: tuple[Rule, ...]
    drifts: tuple[int, ...]
    asked: tuple[int, ...]
    points: tuple[Point, ...]
    examples: Mapping[str, list[list[float]]]
    decided: Mapping[str, str]
    placement: PlacementReport | None = None
    pace: PaceReport | None = None

    @property
    def unknown(self) -> int:
        """Samples that are of no known class."""
        return sum(self.total.by_cluster.values())

    @property
    def labeled(self) -> int:
        """Samples that got a label."""
        return sum(self.total.by_label.values())

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready but for figures."""
        found = {
            "folder": self.folder,
            "labels": f"{self.folder}/{PARTS}",
            "data": list(self.data),
            "samples": self.samples,
            "labeled": dict(self.total.by_label),
            "unknown": {name or "no new class": n for name, n in self.total.by_cluster.items()},
            "decided": dict(self.decided),
            "abstained": self.total.abstained,
            "unreadable": self.total.unreadable,
            "accuracy": self.accuracy,
            "known": self.known,
            "classes": list(self.classes),
            "new_classes": list(self.new_classes),
            "heuristics": [
                {"name": rule.name, "accuracy": rule.accuracy, "voice": rule.voice}
                for rule in self.rules
            ],
            "drifts": list(self.drifts),
            "ask": list(self.asked),
        }
        if self.placement is not None:
            found["placement"] = self.placement.to_dict()
        if self.pace is not None:
            found["foreground"] = self.pace.to_dict()
        return found


def labeling_report(
    folder: LabelFolder,
    asked: Asked,
    labeler: AutoLabeler,
    progress: Progress,
    questions: Questions | None,
    pacer: Pacer | None = None,
) -> LabelingReport:
    """Result of a labeling that has come this far."""
    engine, total = labeler.engine_, progress.total()
    placement = labeler.placement_  # before the points of the picture are looked up as well
    placed = None if placement is None else placement_report(placement)
    labeled, readable = sum(total.by_label.values()), total.samples - total.unreadable
    model = engine.model
    assert model is not None
    names = (*(each.describe() for each in engine.heuristics), "spread over neighbours")
    return LabelingReport(
        folder=str(folder.path),
        data=asked.data,
        samples=progress.samples,
        total=total,
        course=progress.course,
        accuracy=_expected(total.probability, labeled),
        known=_modelled(
            total.known / readable,
            "mean over samples of P(known), from a mixture of how strange they are, as each was labeled",
            readable,
        )
        if engine.last_look >= LEAST_RECENT
        else missing("ratio", f"fewer than {LEAST_RECENT} samples without labels were looked at"),
        classes=tuple(str(each) for each in labeler.classes_),
        new_classes=labeler.clusters_,
        rules=tuple(
            Rule(
                name=name,
                accuracy=_modelled(float(accuracy), "label model over votes of recent samples"),
                voice=float(voice),
            )
            for name, accuracy, voice in zip(names, model.accuracies, model.voices, strict=True)
        ),
        drifts=tuple(engine.drifts),
        asked=() if questions is None else tuple(int(n) for n in questions.numbers),
        points=_points(labeler),
        examples=progress.examples or {},
        decided=progress.decided,
        placement=placed,
        pace=None if pacer is None else pacer.report(),
    )


def _expected(probability: float, labeled: int) -> Figure:
    if not labeled:
        return missing("ratio", "no sample was labeled")
    return _modelled(
        probability / labeled,
        "mean probability of the labels, calibrated on the labeled set",
        labeled,
    )


def _modelled(value: float, method: str, n: int | None = None) -> Figure:
    return Figure(
        value=value, unit="ratio", status=Status.MODELLED, method=method, source="labels", n=n
    )


def robust(x: Floats) -> Floats:
    """Features by median and interquartile range, cut off: the plane is not that of a few outlying values.

    Args:
        x: Shape (n, d).
    """
    low, middle, high = np.quantile(x, [0.25, 0.5, 0.75], axis=0)
    spread = np.where(high > low, (high - low) / 1.35, moments(x)[1])
    with np.errstate(over="ignore"):
        scaled = ((x - middle) / np.where(spread > 0, spread, 1.0)).clip(-OUTLYING, OUTLYING)
    centered: Floats = scaled - scaled.mean(axis=0)
    return centered


def _points(labeler: AutoLabeler) -> tuple[Point, ...]:
    engine = labeler.engine_
    x = engine.recent.x[:MOST_POINTS]
    if len(x) < 3:
        return ()
    judged = engine.judge(x)
    centered = robust(x)
    directions = np.linalg.svd(centered, full_matrices=False)[2][:2]
    plane = centered @ directions.T
    if plane.shape[1] < 2:
        plane = np.column_stack([plane, np.zeros(len(plane))])
    best = judged.classes.argmax(axis=1)
    clusters = labeler.clusters_
    names = []
    for row, status in enumerate(judged.status):
        if status == 0:
            names.append(str(labeler.classes_[best[row]]))
        elif status == 1:
            names.append(clusters[judged.cluster[row]] if judged.cluster[row] >= 0 else "unknown")
        else:
            names.append("abstained")
    return tuple(
        Point(x=float(a), y=float(b), name=name) for (a, b), name in zip(plane, names, strict=True)
    )
