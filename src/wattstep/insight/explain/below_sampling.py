"""Energy below the sampling interval: what operations take that are shorter than a sample, and how surely it is known."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from wattstep.attribution.regression.outcome import Regression
from wattstep.attribution.tables.regression_input import RegressionResult
from wattstep.attribution.tables.regression_rows import RegressionRows
from wattstep.insight.explain.section import Section, Table
from wattstep.recorded.power import spoken
from wattstep.run import Run
from wattstep.schema.figure import Figure, Missing, Status, missing, weakest

NAME = "below_sampling"
TITLE = "Energy below the sampling interval"
GROUPS = {
    "name": "what they share", "merged": "merged by", "members": "operations", "time": "time",
    "energy": "energy", "power": "power", "close": "within 20 %",
}  # fmt: skip
OPERATIONS = {
    "name": "operation", "layer": "layer", "phase": "phase", "time": "time", "power": "power",
    "energy": "energy", "overlap": "by overlap alone",
}  # fmt: skip
OVERLAP = (
    "what samples gained while it ran, attributed by time: blind to what is shorter than they are"
)


def below_sampling(run: Run) -> Section:
    """Groups, power by operation, the sensor's delay and window, and what cannot be distinguished."""
    table = (
        run.breakdown.regression_tables.regression_result
        if run.breakdown.reason is None
        else Missing(run.breakdown.reason)
    )
    if isinstance(table, Missing):
        return Section(name=NAME, title=TITLE, reason=table)
    if table.regression.reason is not None:
        return Section(name=NAME, title=TITLE, reason=table.regression.reason)
    result = run.breakdown.regression_tables.regression_rows
    if isinstance(result, Missing):
        return Section(name=NAME, title=TITLE, reason=result)
    regression = table.regression
    figures = {
        "sensor_delay": regression.delay,
        "sensor_window": regression.window,
        "regressed_step_energy": regression.step_energy,
    }
    return Section(
        name=NAME,
        title=TITLE,
        sentences=(*_sentences(run, table), *_notes(table)),
        figures=figures,
        tables=(
            Table(
                name="groups", title="What is told apart", columns=GROUPS,
                rows=_groups(table, result, run.breakdown.instruments.profiler),
            ),
            Table(
                name="operations", title="Power by operation", columns=OPERATIONS,
                rows=list(_operations(run)),
            ),
        ),
    )  # fmt: skip


def _sentences(run: Run, table: RegressionResult) -> Iterator[str]:
    regression = table.regression
    single = [g for g in regression.groups if len(g.members) == 1 and g.resolved]
    several = [g for g in regression.groups if len(g.members) > 1]
    lasting = run.breakdown.step_time.value or 0.0
    alone_s = sum(group.seconds for group in single)
    yield (
        f"{len(single)} of {len(table.kinds)} operations and rests, "
        f"{_percent(alone_s, lasting)} of the step, have a power of their own; "
        f"{sum(len(g.members) for g in several)} stand together in {len(several)} "
        f"group{'' if len(several) == 1 else 's'}."
    )
    loose = [group for group in regression.groups if not group.resolved]
    if loose:
        seconds = sum(group.seconds for group in loose)
        yield (
            f"Of {_some(seconds, lasting)} of the step no power is known to within 20 %: "
            "record more steps, or let the sampler read more often (--interval)."
        )
    yield _of_sensor(regression, _clock_of(run))
    yield (
        _sentence(f"Step and sampler are locked in phase: {regression.locked}")
        if regression.locked
        else "Step and sampler are not locked in phase: samples fall anywhere in the step."
    )


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.0f} %" if whole else "none"


def _some(part: float, whole: float) -> str:
    """A share that is not nothing, however small."""
    return "less than 1%" if part < 0.005 * whole else _percent(part, whole)


def _clock_of(run: Run) -> str:
    """That clocks were aligned is in the delay that was found; nothing where there is one clock."""
    energy = run.series.energy
    if isinstance(energy, Missing) or energy.clock is None:
        return ""
    return f" (with what the clocks are off by: {energy.clock.words})"


def _of_sensor(regression: Regression, clock: str = "") -> str:
    delay, window = regression.delay, regression.window
    late = "how late the sensor is cannot be determined"
    if not delay.missing and delay.low is not None and delay.low <= 0:
        late = f"whether the sensor is late at all cannot be determined: {_spoken(delay)}"
    elif not delay.missing:
        late = f"the sensor is late by {_spoken(delay)}"
    late += clock
    if window.missing:
        return f"From the samples, {late}."
    return f"From the samples, {late}; it averages over {_spoken(window)}."


def _spoken(figure: Figure) -> str:
    value = figure.value or 0.0
    if figure.low is None or figure.high is None:
        return spoken(value)
    return f"{spoken(value)} ({spoken(figure.low)} to {spoken(figure.high)})"


def _notes(table: RegressionResult) -> Iterator[str]:
    for note in table.regression.notes:
        yield _sentence(note)
    for process in table.processes:
        yield from map(_sentence, process.notes)


def _sentence(note: str) -> str:
    return f"{note[:1].upper()}{note[1:]}{'' if note.endswith('.') else '.'}"


def _groups(table: RegressionResult, result: RegressionRows, profiler: str) -> list[dict[str, Any]]:
    """The costliest first, with the energies that the tables of operations have."""
    groups = sorted(table.regression.groups, key=lambda group: -(group.energy.value or 0.0))
    return [
        {
            "name": table.label(group)
            if len(group.members) > 1
            else table.levels.names[group.members[0]],
            "merged": "" if len(group.members) == 1 else table.levels.level_names[group.level],
            "members": len(group.members),
            "holds": [table.levels.names[member] for member in group.members],
            "time": Figure(
                value=group.seconds, unit="s", status=Status.ATTRIBUTED, source=profiler
            ),
            "energy": result.reconciled(group.energy),
            "power": result.reconciled(group.power),
            "close": "yes" if group.resolved else "no",
        }
        for group in groups
    ]


def _operations(run: Run) -> Iterator[dict[str, Any]]:
    """As in the tables of the run, the longest first, with plain overlap attribution beside."""
    breakdown = run.breakdown
    shared, codes = breakdown.plain.shared("energy"), breakdown.plain.codes("operations")
    source = run.series.energy
    for row, key in zip(breakdown.operations(), breakdown.plain.rows("operations"), strict=True):
        energy = row.figure("energy")
        overlap = missing("J", energy.reason or "no energy is known")
        if shared is not None and not isinstance(source, Missing):
            overlap = Figure(
                value=float(shared[codes[key]].sum()), unit="J", method=OVERLAP,
                status=weakest([Status.ATTRIBUTED, source.status]), source=source.source,
            )  # fmt: skip
        cells = row.to_dict()
        yield {**{column: cells.get(column) for column in OPERATIONS}, "overlap": overlap}
