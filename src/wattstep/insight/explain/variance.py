"""Section "variance": operations and steps that were slow at times, how much that cost, and what it coincided with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from wattstep.attribution.variation import LEAST_WINDOWS as FOR_SLOW
from wattstep.insight.explain.section import Section
from wattstep.insight.explain.slow_instances import RATE, SlowInstances
from wattstep.insight.explain.variance_tables import called, percent, shape_rows, tables
from wattstep.recorded.power import spoken
from wattstep.run import Run
from wattstep.schema.figure import CLOCK, Figure, Missing, Status, counted, missing
from wattstep.stats.coincidence import LEAST_WINDOWS, Coincidence
from wattstep.stats.statistics import mean_figure, ratio_figure

NAME = "variance"
TITLE = "Operations and steps that varied, and what that coincided with"
MOST_TOLD = 3
WORTH_TELLING = 0.5  # of an operation's variance between its shapes


def variance(run: Run) -> Section:
    """Section on operations and steps that were slow at times, and what that coincided with.

    Args:
        run: The run.
    """
    slow_instances = SlowInstances(run)
    if slow_instances.reason and not len(slow_instances.clean):
        return Section(name=NAME, title=TITLE, reason=slow_instances.reason)
    sentences = [
        *_of_operations(slow_instances),
        *_of_steps(slow_instances),
        *_limits(slow_instances),
    ]
    return Section(
        name=NAME,
        title=TITLE,
        sentences=tuple(_once(sentences)),
        figures=_figures(slow_instances),
        tables=tuple(tables(slow_instances)),
    )


# --- sentences ----------------------------------------------------------------------------------


def _once(sentences: Iterable[str]) -> Iterator[str]:
    """The sentences; what one ends with, another does not say again."""
    ends: set[str] = set()
    for sentence in sentences:
        begin, parted, end = sentence.rpartition("; ")
        yield f"{begin}." if parted and end in ends else sentence
        ends.add(end)


def _of_operations(slow_instances: SlowInstances) -> Iterator[str]:
    if slow_instances.reason:
        yield f"Operations cannot be determined: {slow_instances.reason}."
        return
    of, lost = slow_instances.instances.of_shapes, slow_instances.lost_s
    windows = of.windows
    if windows < FOR_SLOW:
        yield (
            f"From {_count(windows, 'traced step')} no slow instance can be told from a usual one: at least "
            f"{FOR_SLOW} are needed (record longer, or with --trace every:N)."
        )
    else:
        slow = int((slow_instances.slow_windows > 0).sum())
        share = lost.sum() / slow_instances.variation.total_s.sum() if len(of.seconds) else 0.0
        yield (
            f"Of {of.groups} operations in {windows} traced steps {slow} had slow instances: more "
            f"than 1.5 times what is usual at their place in the step. They lost "
            f"{spoken(lost.sum() / windows)} a traced step, {percent(share)} of the operations' time."
        )
    for group in [g for g in np.argsort(-lost, kind="stable") if lost[g] > 0][:MOST_TOLD]:
        yield _of_operation(slow_instances, int(group))
    yield from _between_shapes(slow_instances)


def _of_operation(slow_instances: SlowInstances, group: int) -> str:
    of, variation = slow_instances.instances.of_shapes, slow_instances.variation
    mine = of.group == group
    slow = mine & variation.slow
    usual, typical = (
        float(np.median(of.seconds[mine & ~variation.slow])),
        np.median(of.seconds[slow]),
    )
    begin = (
        f"{called(slow_instances, group)} took {spoken(usual)} in most calls and {spoken(float(typical))} in "
        f"{percent(slow.sum() / mine.sum())} of {int(mine.sum()):,} calls"
    )
    if slow_instances.of_the_tracer[group]:
        return f"{begin}; tracing it costs so much of that that it may be the tracer's own."
    return f"{begin}; {_coincided(slow_instances, group, 'the slow ones', 'the others')}"


def _coincided(slow_instances: SlowInstances, group: int | None, slow: str, others: str) -> str:
    """Coincidences of slow instances, in words."""
    hits = slow_instances.coincidences_of(group)
    if not hits:
        known = [
            p
            for p in slow_instances.tested
            if p.group == group and isinstance(p.result, Coincidence)
        ]
        if known:
            return "nothing that was watched coincided with it more often than by chance."
        return (
            f"what it coincided with cannot be determined: {_why_untested(slow_instances, group)}."
        )
    parts = []
    for hit in hits[:2]:
        assert isinstance(hit.result, Coincidence)
        share, other = percent(hit.result.with_slow), percent(hit.result.with_others)
        parts.append(f"{share} of {slow} fell while {hit.words}, {other} of {others}")
    more = f"; and {len(hits) - 2} more below" if len(hits) > 2 else ""
    return f"{'; '.join(parts)}{more}."


def _why_untested(slow_instances: SlowInstances, group: int | None) -> str:
    if group is not None and group not in slow_instances.candidates:
        windows = int(slow_instances.slow_windows[group])
        return (
            f"it was slow in {_count(windows, 'traced step')} only"
            if windows < 2
            else ("only those that lost most are tested")
        )
    reasons = [
        p.result
        for p in slow_instances.tested
        if p.group == group and isinstance(p.result, Missing)
    ]
    few = [reason for reason in reasons if "too few" in reason]
    return few[0] if few else "no condition that was watched changed"


def _between_shapes(slow_instances: SlowInstances) -> Iterator[str]:
    rows = [row for row in shape_rows(slow_instances) if row["share"].value >= WORTH_TELLING]
    for row in rows[:MOST_TOLD]:
        yield (
            f"{row['operation']} differs between its input shapes ({row['shapes']}): "
            f"{percent(row['share'].value)} of its variance. That is no variance of one operation."
        )


def _of_steps(slow_instances: SlowInstances) -> Iterator[str]:
    clean, slow = slow_instances.clean, slow_instances.slow_steps
    if len(clean) < LEAST_WINDOWS:
        yield (f"Too few steps count ({len(clean)}) to say which of them were slow.")
        return
    if (note := slow_instances.steps.thinned_note) is not None:
        yield f"{note[0].upper()}{note[1:]}."
    seconds = slow_instances.steps.seconds[clean]
    median = float(np.median(seconds))
    if not slow.any():
        yield f"None of {len(clean):,} {slow_instances.steps.figures_of} was slow (usual: {spoken(median)})."
        return
    lost = float((seconds[slow] - median).sum() / seconds.sum())
    sentence = (
        f"{int(slow.sum()):,} of {len(clean):,} {slow_instances.steps.figures_of} were slow "
        f"({spoken(float(np.median(seconds[slow])))} beside {spoken(median)}), which lost "
        f"{percent(lost)} of the time"
    )
    if slow.sum() < 2:
        yield f"{sentence}; what a single slow step coincided with means nothing."
        return
    yield f"{sentence}; {_coincided(slow_instances, None, 'the slow ones', 'the others')}"


def _limits(slow_instances: SlowInstances) -> Iterator[str]:
    pairs = sum(isinstance(pair.result, Coincidence) for pair in slow_instances.tested)
    if pairs:
        yield (
            f"{_count(pairs, 'pair')} of operation and condition could be tested; at most "
            f"{percent(RATE)} of those that are named are expected to be chance. To coincide is "
            "not to cause."
        )
    coarse = [held.covariate for held in slow_instances.held if held.covariate.every_s > 0]
    if coarse and not slow_instances.reason:
        least, most = min(c.every_s for c in coarse), max(c.every_s for c in coarse)
        lasting = float(np.median(slow_instances.steps.seconds[slow_instances.instances.step]))
        short = " and steps" if lasting < least else ""
        range_ = spoken(least) if least == most else f"{spoken(least)} to {spoken(most)}"
        yield (
            f"Conditions are seen every {range_}: of shorter operations"
            f"{short} (a traced step: {spoken(lasting)}) they tell what surrounded them, not what "
            "happened within."
        )
    for held in slow_instances.held:
        words = held.covariate.words
        if held.of_windows == 1 and held.of_steps == 1:
            yield f"All the time {words}: whether that slowed anything cannot be determined from this run."


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


# --- figures --------------------------------------------------------------------------------------


def _figures(slow_instances: SlowInstances) -> dict[str, Figure]:
    figures = {}
    clean, slow = slow_instances.clean, slow_instances.slow_steps
    if len(clean) >= LEAST_WINDOWS:
        seconds = slow_instances.steps.seconds[clean]
        extra = np.where(slow, seconds - np.median(seconds), 0.0)
        status = Status.MEASURED
        figures["slow_step_share"] = mean_figure(slow.astype(float), "ratio", CLOCK, status)
        figures["slow_step_loss"] = ratio_figure(extra, seconds, "ratio", CLOCK, status)
    if (
        note := slow_instances.steps.thinned_note
    ) is not None:  # which were slow is told by single ones
        figures |= dict.fromkeys(("slow_step_share", "slow_step_loss"), missing("ratio", note))
    if not slow_instances.reason and slow_instances.instances.of_shapes.windows >= FOR_SLOW:
        slowed = int((slow_instances.slow_windows > 0).sum())
        figures["slow_operations"] = counted(slowed, "count", slow_instances.instances.source)
    pairs = sum(isinstance(pair.result, Coincidence) for pair in slow_instances.tested)
    figures["tested_pairs"] = counted(pairs, "count", "pairs of operation and condition")
    return figures
