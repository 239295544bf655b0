"""Level changes of step time, throughput and power of a run, and the end of warm-up by them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from wattstep.insight.explain.section import Row, Table
from wattstep.recorded.steps import SINGLE_GONE, Steps
from wattstep.run import Run
from wattstep.schema.arrays import FloatArray, IntArray
from wattstep.schema.figure import CLOCK, Figure, Missing, Status
from wattstep.stats.change_points import FALSE_ALARMS, Change, Changes, find_changes

_COLUMNS: Final = {
    "what": "what", "step": "from step", "before": "before", "after": "after", "change": "change",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class SectionPart:
    """A part of a section."""

    sentences: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    figures: Mapping[str, Figure] = field(default_factory=dict)


def level_changes(run: Run) -> SectionPart:
    """Of a run; which steps count as warm-up stays as it is."""
    steps = run.series.steps
    if steps.thinned is not None:
        return SectionPart(sentences=(f"Changes of level: {SINGLE_GONE}.",))
    usable = np.flatnonzero(~(steps.traced & (not steps.only_traced)) & ~steps.after_traced)
    rows: list[Row] = []
    sentences: list[str] = []
    figures: dict[str, Figure] = {}
    for what, unit, source, status, values, at in _series(run, steps, usable):
        changes = find_changes(values, unit, source, status)
        if changes.reason is not None:
            sentences.append(f"Changes of {what}: {changes.reason}.")
            continue
        rows += [_row(what, change, steps.index[at]) for change in changes.changes]
        if what == "step time":
            sentences += _of_warmup(changes, steps, at, run.info.warmup)
            if changes.settled is not None:
                figures["warmup_by_changes"] = _end_of_warmup(
                    changes, int(steps.index[at[changes.settled]])
                )
        if not changes.changes:
            sentences.append(f"The {what} changed its level nowhere.")
    if rows:
        title = f"Changes of level ({100 * FALSE_ALARMS:.0f} % of steady runs would show one)"
        return SectionPart(
            sentences=tuple(sentences), figures=figures,
            tables=(Table(name="changes", title=title, columns=_COLUMNS, rows=rows),),
        )  # fmt: skip
    return SectionPart(sentences=tuple(sentences), figures=figures)


def _series(
    run: Run, steps: Steps, usable: IntArray
) -> list[tuple[str, str, str, Status, FloatArray, IntArray]]:
    seconds = steps.seconds[usable]
    quantities = [("step time", "s", CLOCK, Status.MEASURED, seconds, usable)]
    samples = steps.samples[usable]
    if np.isfinite(samples).all() and len(np.unique(samples)) > 1 and (seconds > 0).all():
        quantities.append(
            ("throughput", "samples/s", CLOCK, Status.MEASURED, samples / seconds, usable)
        )
    energy = run.series.energy
    if isinstance(energy, Missing) or not len(usable):
        return quantities
    # Steps that a sensor cannot tell apart are taken together.
    together = max(1, int(np.ceil(energy.shortest[0] / max(float(np.median(seconds)), 1e-9))))
    firsts = np.arange(0, len(usable) - together + 1, together)
    begin, end = steps.start_ns[usable[firsts]], steps.end_ns[usable[firsts + together - 1]]
    gains, covered = energy.curve.difference(begin, end)
    lasted = (end - begin) * 1e-9 * covered
    power = np.divide(gains, lasted, out=np.full(len(gains), np.nan), where=lasted > 0)
    quantities.append(("power", "W", energy.source, energy.status, power, usable[firsts]))
    return quantities


def _row(what: str, change: Change, index: IntArray) -> Row:
    before, after = change.before.value, change.after.value
    return {
        "what": what,
        "step": int(index[change.index]),
        "before": change.before,
        "after": change.after,
        "change": f"{100 * (after / before - 1):+.1f} %" if before and after is not None else None,
    }


def _end_of_warmup(changes: Changes, step: int) -> Figure:
    return Figure(
        value=float(step), unit="count", status=Status.ATTRIBUTED, source=CLOCK,
        method="steps before the first stretch of step times that lasts: change points "
        f"({100 * FALSE_ALARMS:.0f} % false alarms, neighbours correlate by {changes.correlation:.2f}), and "
        "first steps that stand out of it",
    )  # fmt: skip


def _steps(count: int) -> str:
    return f"{count} step{'' if count == 1 else 's'}"


def _of_warmup(changes: Changes, steps: Steps, at: IntArray, warmup: int) -> list[str]:
    if changes.settled is None:
        return ["The step time never settles: no stretch of it lasts long enough to end a warm-up."]
    settled = int(steps.index[at[changes.settled]])
    if settled == warmup:
        return [
            f"By the changes of the step time the warm-up ends with step {settled}, as the run has it."
        ]
    if settled < warmup:
        over = f"is over after {_steps(settled)}" if settled else "does not show"
        return [
            f"By the changes of the step time the warm-up {over}; the run leaves out its first "
            f"{warmup} steps, which is on the safe side."
        ]
    late = int((steps.clean & (steps.index < settled)).sum())
    return [
        f"By the changes of the step time the warm-up lasts until step {settled}, but the run counts "
        f"{_steps(warmup)} as warm-up: {_steps(late)} that count had not settled yet (--warmup {settled} "
        "would leave them out of another run; nothing was left out here)."
    ]
