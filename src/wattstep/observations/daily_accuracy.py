"""Observation 12: training on the device by the day slowly raises accuracy.

In the paper DenseNet40 goes from 60.65 to 61.32 % in 17 days of 64 new images, with three batch
sizes. What must hold for each daily training (workload, settings and batch size): accuracy on the
held-out samples on the last day less that on day 0 has its interval above 0.1 points, a sixth of
the paper's gain. It does not hold where the interval lies below. Of one training the interval is
that of paired proportions over the held-out samples: it knows that other samples would have judged
otherwise, and does not know that another seed would have trained otherwise; days go up and down,
and the last one is one draw. Of several trainings that differ in seed (folders of their own), it is
Student's t over them.
"""

from __future__ import annotations

from collections.abc import Sequence

from wattstep.observations.concluding import conclude
from wattstep.observations.deciding import Part
from wattstep.observations.estimates import as_figure, of_processes, over
from wattstep.observations.evidence import DailyCourse, Evidence
from wattstep.observations.growth import above
from wattstep.observations.observation import (
    About,
    Case,
    Column,
    Judged,
    Observation,
    Published,
)
from wattstep.observations.spreads import ACCURACY
from wattstep.observations.wording import across, in_how_many, points

MARGIN = 0.001
NO_DAYS = "no daily training was given: wattstep daily WORKLOAD makes one, give its folder"
DAY_ZERO = "no day is done yet"
ABOUT = About(
    number=12,
    title="Training by the day slowly raises accuracy",
    claim="A model that learns each day's new samples on the device slowly becomes more accurate.",
    criterion="Accuracy on the last day less that on day 0, on the same held-out samples, has its "
    f"95 % interval above {100 * MARGIN:.1f} points with every batch size; it does not hold where "
    "it lies below with any (confidence raised for the number of trainings).",
    metrics=("accuracy", "gain"),
    columns=(
        Column("first", "day 0"),
        Column("last", "last day"),
        Column("gain", "gain", "points"),
    ),
    published=(
        Published(what="DenseNet40, day 0", value=0.6065, unit="ratio"),
        Published(what="DenseNet40, day 17", value=0.6132, unit="ratio"),
        Published(what="gain", value=0.0067, notation="points"),
    ),
)


def observe(evidence: Evidence) -> Observation:
    """The verdict on these daily trainings."""
    found: dict[tuple[str, ...], list[DailyCourse]] = {}
    for course in evidence.daily:
        key = (course.workload, str(course.batch_size), str(course.days), repr(course.settings))
        found.setdefault(key, []).append(course)
    return conclude(ABOUT, [_case(courses) for courses in found.values()], _sentences, NO_DAYS)


def _case(courses: Sequence[DailyCourse]) -> Case:
    one = courses[0]
    label = f"{one.workload}, batch {one.batch_size}, {one.days} days"
    if not one.days:
        return Case(label=label, reason=DAY_ZERO)
    gain = of_processes([course.gain for course in courses], between=ACCURACY)
    part = Part(
        name="gain", words="accuracy on the last day less that on day 0", estimate=gain,
        region=above(MARGIN),
    )  # fmt: skip
    figures = {
        "first": as_figure(of_processes([course.first for course in courses]), "ratio"),
        "last": as_figure(of_processes([course.last for course in courses]), "ratio"),
    }
    if not isinstance(gain, str):
        figures["gain_a_day"] = over(gain, one.days, "ratio", "gain over days").figure()
    return Case(
        label=label, parts=(part,), figures=figures, batches=str(one.batch_size),
        notes=_notes(courses),
    )  # fmt: skip


def _notes(courses: Sequence[DailyCourse]) -> tuple[str, ...]:
    one = courses[0]
    notes = [f"{one.images_per_day} new samples a day"]
    if one.stand_in:
        notes.append(f"{one.workload}: stand-in data, not the official ones")
    notes.append("from " + ", ".join(dict.fromkeys(course.folder for course in courses)))
    return tuple(notes)


def _sentences(tested: Sequence[Judged]) -> list[str]:
    return [
        f"{in_how_many(tested, 'training')} accuracy is higher after the last day than on day 0: it "
        f"changes by {across(tested, 'gain', points)}."
    ]
