"""Where step time, throughput and power of a run changed their level, and where that says that the warm-up ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from wattstep.analysis.change_points import FALSE_ALARMS, Changes, find_changes
from wattstep.analysis.steps import FloatArray, IntArray, Steps
from wattstep.explaining.section import Table
from wattstep.records.figure import Figure, Status
from wattstep.run import Run

CLOCK: Final = "monotonic clock"
_COLUMNS: Final = {
    "what": "what", "step": "from step", "before": "before", "after": "after", "change": "change",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Found:
    """A part of a section."""

    sentences: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    figures: Mapping[str, Figure] = field(default_factory=dict)


def level_changes(run: Run) -> Found:
    """Of a run; which steps count as warm-up stays as it is."""
    steps = run.series.steps
    usable = np.flatnonzero(~(steps.traced & (not steps.only_traced)) & ~steps.settling)
    rows: list[Mapping[str, Any]] = []
    said: list[str] = []
    figures: dict[str, Figure] = {}
    for what, unit, source, status, values, at in _series(run, steps, usable):
        found = find_changes(values, unit, source, status)
        if found.reason is not None:
            said.append(f"Changes of {what}: {found.reason}.")
            continue
        rows += [_row(what, change, steps.index[at]) for change in found.changes]
        if what == "step time":
            said += _of_warmup(found, steps, at, run.info.warmup)
            if found.settled is not None:
                figures["warmup_by_changes"] = _settled(found, int(steps.index[at[found.settled]]))
        if not found.changes:
            said.append(f"The {what} changed its level nowhere.")
    if rows:
        title = f"Changes of level ({FALSE_ALARMS:.0%} of steady runs would show one)"
        return Found(
            sentences=tuple(said), figures=figures,
            tables=(Table(name="changes", title=title, columns=_COLUMNS, rows=rows),),
        )  # fmt: skip
    return Found(sentences=tuple(said), figures=figures)


def _series(
    run: Run, steps: Steps, usable: IntArray
) -> list[tuple[str, str, str, Status, FloatArray, IntArray]]:
    seconds = steps.seconds[usable]
    found = [("step time", "s", CLOCK, Status.MEASURED, seconds, usable)]
    samples = steps.samples[usable]
    if np.isfinite(samples).all() and len(np.unique(samples)) > 1 and (seconds > 0).all():
        found.append(("throughput", "samples/s", CLOCK, Status.MEASURED, samples / seconds, usable))
    energy = run.series.energy
    if isinstance(energy, str) or not len(usable):
        return found
    # Steps that a sensor cannot tell apart are taken together.
    together = max(1, int(np.ceil(energy.shortest[0] / max(float(np.median(seconds)), 1e-9))))
    firsts = np.arange(0, len(usable) - together + 1, together)
    begin, end = steps.start_ns[usable[firsts]], steps.end_ns[usable[firsts + together - 1]]
    gains, covered = energy.curve.difference(begin, end)
    lasted = (end - begin) * 1e-9 * covered
    power = np.divide(gains, lasted, out=np.full(len(gains), np.nan), where=lasted > 0)
    found.append(("power", "W", energy.source, energy.status, power, usable[firsts]))
    return found


def _row(what: str, change: Any, index: IntArray) -> dict[str, Any]:
    before, after = change.before.value, change.after.value
    return {
        "what": what,
        "step": int(index[change.index]),
        "before": change.before,
        "after": change.after,
        "change": f"{after / before - 1:+.1%}" if before else None,
    }


def _settled(found: Changes, step: int) -> Figure:
    return Figure(
        value=float(step), unit="count", status=Status.ATTRIBUTED, source=CLOCK,
        method="steps before the first stretch of step times that lasts: change points "
        f"({FALSE_ALARMS:.0%} false alarms, neighbours correlate by {found.correlation:.2f}), and "
        "first steps that stand out of it",
    )  # fmt: skip


def _steps(count: int) -> str:
    return f"{count} step{'' if count == 1 else 's'}"


def _of_warmup(found: Changes, steps: Steps, at: IntArray, warmup: int) -> list[str]:
    if found.settled is None:
        return ["The step time never settles: no stretch of it lasts long enough to end a warm-up."]
    settled = int(steps.index[at[found.settled]])
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
