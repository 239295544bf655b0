"""Gains of daily trainings since day 0.

Of one training the interval is that of paired proportions over the held-out samples: it knows that
other samples would have judged otherwise, and does not know that another seed would have trained
otherwise, for which a spread is assumed. Of several that differ in seed it is Student's t over them.
"""

from __future__ import annotations

from collections.abc import Sequence

from wattstep.insight.observe.deciding import Part, above
from wattstep.insight.observe.estimates import as_figure, of_processes, over
from wattstep.insight.observe.evidence import DailyCourse, Evidence
from wattstep.insight.observe.observation import Case
from wattstep.insight.observe.spreads import ACCURACY
from wattstep.schema.figure import Missing

MARGIN = 0.001  # a sixth of the paper's gain
NO_DAYS = "no daily training was given: wattstep daily WORKLOAD makes one, give its folder"
DAY_ZERO = "no day is done yet"


def cases(evidence: Evidence) -> list[Case]:
    """A case for each workload, its settings and batch size."""
    trainings: dict[tuple[str, ...], list[DailyCourse]] = {}
    for course in evidence.daily:
        key = (course.workload, str(course.batch_size), str(course.days), repr(course.settings))
        trainings.setdefault(key, []).append(course)
    return [_case(courses) for courses in trainings.values()]


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
    if not isinstance(gain, Missing):
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
