"""Section "variance": operations and steps that were slow at times, how much that cost, and what it coincided with."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from wattstep.analysis.coincidence import LEAST_WINDOWS, Coincidence
from wattstep.analysis.power import spoken
from wattstep.analysis.statistics import mean_figure, ratio_figure
from wattstep.analysis.variation import LEAST_WINDOWS as FOR_SLOW
from wattstep.explaining.section import Section
from wattstep.explaining.slow_instances import RATE, SlowInstances
from wattstep.explaining.variance_tables import CLOCK, called, percent, shape_rows, tables
from wattstep.records.figure import Figure, Status, counted
from wattstep.run import Run

NAME = "variance"
TITLE = "Operations and steps that varied, and what that coincided with"
MOST_TOLD = 3
WORTH_TELLING = 0.5  # of an operation's variance between its shapes


def variance(run: Run) -> Section:
    """Which operations and steps were slow at times, and what that coincided with.

    Args:
        run: The run.
    """
    found = SlowInstances(run)
    if found.reason and not len(found.clean):
        return Section(name=NAME, title=TITLE, reason=found.reason)
    sentences = [*_of_operations(found), *_of_steps(found), *_limits(found)]
    return Section(
        name=NAME,
        title=TITLE,
        sentences=tuple(sentences),
        figures=_figures(found),
        tables=tuple(tables(found)),
    )


# --- sentences ----------------------------------------------------------------------------------


def _of_operations(found: SlowInstances) -> Iterator[str]:
    if found.reason:
        yield f"Operations cannot be told: {found.reason}."
        return
    of, lost = found.instances.of_shapes, found.lost_s
    windows = of.windows
    if windows < FOR_SLOW:
        yield (
            f"From {_count(windows, 'traced step')} no slow instance can be told from a usual one: at least "
            f"{FOR_SLOW} are needed (record longer, or with --trace every:N)."
        )
    else:
        slow = int((found.slow_windows > 0).sum())
        share = lost.sum() / found.variation.total_s.sum() if len(of.seconds) else 0.0
        yield (
            f"Of {of.groups} operations in {windows} traced steps {slow} had slow instances: more "
            f"than 1.5 times what is usual at their place in the step. They lost "
            f"{spoken(lost.sum() / windows)} a traced step, {percent(share)} of the operations' time."
        )
    for group in [g for g in np.argsort(-lost, kind="stable") if lost[g] > 0][:MOST_TOLD]:
        yield _of_operation(found, int(group))
    yield from _between_shapes_told(found)


def _of_operation(found: SlowInstances, group: int) -> str:
    of, told = found.instances.of_shapes, found.variation
    mine = of.group == group
    slow = mine & told.slow
    usual, typical = float(np.median(of.seconds[mine & ~told.slow])), np.median(of.seconds[slow])
    begin = (
        f"{called(found, group)} took {spoken(usual)} in most calls and {spoken(float(typical))} in "
        f"{percent(slow.sum() / mine.sum())} of {int(mine.sum()):,} calls"
    )
    if found.of_the_tracer[group]:
        return f"{begin}; tracing it costs so much of that that it may be the tracer's own."
    return f"{begin}; {_coincided(found, group, 'the slow ones', 'the others')}"


def _coincided(found: SlowInstances, group: int | None, slow: str, others: str) -> str:
    """What slow instances fell together with, in words."""
    hits = found.found_for(group)
    if not hits:
        known = [p for p in found.tested if p.group == group and isinstance(p.result, Coincidence)]
        if known:
            return "nothing that was watched coincided with it more often than by chance."
        return f"what it coincided with cannot be told: {_why_untested(found, group)}."
    parts = []
    for hit in hits[:2]:
        assert isinstance(hit.result, Coincidence)
        share, other = percent(hit.result.with_slow), percent(hit.result.with_others)
        parts.append(f"{share} of {slow} fell while {hit.words}, {other} of {others}")
    more = f"; and {len(hits) - 2} more below" if len(hits) > 2 else ""
    return f"{'; '.join(parts)}{more}."


def _why_untested(found: SlowInstances, group: int | None) -> str:
    if group is not None and group not in found.candidates:
        windows = int(found.slow_windows[group])
        return (
            f"it was slow in {_count(windows, 'traced step')} only"
            if windows < 2
            else ("only those that lost most are tested")
        )
    reasons = [p.result for p in found.tested if p.group == group and isinstance(p.result, str)]
    few = [reason for reason in reasons if "too few" in reason]
    return few[0] if few else "no condition that was watched changed"


def _between_shapes_told(found: SlowInstances) -> Iterator[str]:
    rows = [row for row in shape_rows(found) if row["share"].value >= WORTH_TELLING]
    for row in rows[:MOST_TOLD]:
        yield (
            f"{row['operation']} differs between its input shapes ({row['shapes']}): "
            f"{percent(row['share'].value)} of its variance. That is no variance of one operation."
        )


def _of_steps(found: SlowInstances) -> Iterator[str]:
    clean, slow = found.clean, found.slow_steps
    if len(clean) < LEAST_WINDOWS:
        yield (f"Too few steps count ({len(clean)}) to say which of them were slow.")
        return
    seconds = found.steps.seconds[clean]
    median = float(np.median(seconds))
    if not slow.any():
        yield f"None of {len(clean):,} {found.steps.figures_of} was slow (usual: {spoken(median)})."
        return
    lost = float((seconds[slow] - median).sum() / seconds.sum())
    sentence = (
        f"{int(slow.sum()):,} of {len(clean):,} {found.steps.figures_of} were slow "
        f"({spoken(float(np.median(seconds[slow])))} beside {spoken(median)}), which lost "
        f"{percent(lost)} of the time"
    )
    if slow.sum() < 2:
        yield f"{sentence}; one slow step tells nothing of what it coincided with."
        return
    yield f"{sentence}; {_coincided(found, None, 'the slow ones', 'the others')}"


def _limits(found: SlowInstances) -> Iterator[str]:
    pairs = sum(isinstance(pair.result, Coincidence) for pair in found.tested)
    if pairs:
        yield (
            f"{_count(pairs, 'pair')} of operation and condition could be tested; at most "
            f"{percent(RATE)} of those that are named are expected to be chance. To coincide is "
            "not to cause."
        )
    coarse = [held.circumstance for held in found.held if held.circumstance.every_s > 0]
    if coarse and not found.reason:
        least, most = min(c.every_s for c in coarse), max(c.every_s for c in coarse)
        lasting = float(np.median(found.steps.seconds[found.instances.step]))
        short = " and steps" if lasting < least else ""
        range_ = spoken(least) if least == most else f"{spoken(least)} to {spoken(most)}"
        yield (
            f"Conditions are seen every {range_}: of shorter operations"
            f"{short} (a traced step: {spoken(lasting)}) they tell what surrounded them, not what "
            "happened within."
        )
    for held in found.held:
        words = held.circumstance.words
        if held.of_windows == 1 and held.of_steps == 1:
            yield f"All the time {words}: whether that slowed anything cannot be told from this run."


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


# --- figures --------------------------------------------------------------------------------------


def _figures(found: SlowInstances) -> dict[str, Figure]:
    figures = {}
    clean, slow = found.clean, found.slow_steps
    if len(clean) >= LEAST_WINDOWS:
        seconds = found.steps.seconds[clean]
        extra = np.where(slow, seconds - np.median(seconds), 0.0)
        status = Status.MEASURED
        figures["slow_step_share"] = mean_figure(slow.astype(float), "ratio", CLOCK, status)
        figures["slow_step_loss"] = ratio_figure(extra, seconds, "ratio", CLOCK, status)
    if not found.reason and found.instances.of_shapes.windows >= FOR_SLOW:
        slowed = int((found.slow_windows > 0).sum())
        figures["slow_operations"] = counted(slowed, "count", found.instances.source)
    pairs = sum(isinstance(pair.result, Coincidence) for pair in found.tested)
    figures["tested_pairs"] = counted(pairs, "count", "pairs of operation and condition")
    return figures
