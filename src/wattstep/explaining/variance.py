"""Section "variance": operations and steps that were slow at times, how much that cost, and what it coincided with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from wattstep.analysis.breakdown import Codes
from wattstep.analysis.coincidence import LEAST_WINDOWS, Coincidence
from wattstep.analysis.power import spoken
from wattstep.analysis.spread import Spreads
from wattstep.analysis.statistics import mean_figure, ratio_figure
from wattstep.analysis.steps import IntArray
from wattstep.analysis.variation import LEAST_WINDOWS as FOR_SLOW
from wattstep.analysis.variation import between_shapes
from wattstep.explaining.section import Section, Table
from wattstep.explaining.slow_instances import RATE, SlowInstances, Tested
from wattstep.records.figure import Figure, Status, counted
from wattstep.run import Run
from wattstep.run.instances import TracedInstances

NAME = "variance"
TITLE = "Operations and steps that varied, and what that coincided with"
MOST_LISTED = 50
MOST_TOLD = 3
WORTH_TELLING = 0.5  # of an operation's variance between its shapes
CLOCK = "monotonic clock"


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
        tables=tuple(_tables(found)),
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
            f"{_count(windows, 'traced step')} tell no slow instance from a usual one: at least "
            f"{FOR_SLOW} are needed (record longer, or with --trace every:N)."
        )
    else:
        slow = int(np.unique(of.group[found.variation.slow]).size)
        share = lost.sum() / found.variation.total_s.sum() if len(of.seconds) else 0.0
        yield (
            f"Of {of.groups} operations in {windows} traced steps {slow} had slow instances: more "
            f"than 1.5 times what is usual at their place in the step. They lost "
            f"{spoken(lost.sum() / windows)} a traced step, {_percent(share)} of the operations' time."
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
        f"{_called(found, group)} took {spoken(usual)} in most calls and {spoken(float(typical))} in "
        f"{_percent(slow.sum() / mine.sum())} of {int(mine.sum()):,} calls"
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
        share, other = _percent(hit.result.with_slow), _percent(hit.result.with_others)
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
    rows = [row for row in _shape_rows(found) if row["share"].value >= WORTH_TELLING]
    for row in rows[:MOST_TOLD]:
        yield (
            f"{row['operation']} differs between its input shapes ({row['shapes']}): "
            f"{_percent(row['share'].value)} of its variance. That is no variance of one operation."
        )


def _of_steps(found: SlowInstances) -> Iterator[str]:
    clean, slow = found.clean, found.slow_steps
    if len(clean) < LEAST_WINDOWS:
        yield (
            f"{_count(len(clean), 'step')} of the run are too few to say which of them were slow."
        )
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
        f"{_percent(lost)} of the time"
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
            f"{_percent(RATE)} of those that are named are expected to be chance. To coincide is "
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


def _called(found: SlowInstances, group: int) -> str:
    labels = found.labels(group)
    shapes = f", {labels['shapes']}" if labels["shapes"] else ""
    return f"{labels['name']} of {labels['layer']} ({labels['phase'] or 'no phase'}{shapes})"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.1 or share == 0 else f"{100 * share:.2g} %"


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
        slowed = int(np.unique(found.instances.of_shapes.group[found.variation.slow]).size)
        figures["slow_operations"] = counted(slowed, "count", found.instances.source)
    pairs = sum(isinstance(pair.result, Coincidence) for pair in found.tested)
    figures["tested_pairs"] = counted(pairs, "count", "pairs of operation and condition")
    return figures


# --- tables ---------------------------------------------------------------------------------------


def _tables(found: SlowInstances) -> Iterator[Table]:
    if not found.reason:
        yield _operation_table(found)
    yield _coincidence_table(found)
    if not found.reason:
        rows = _shape_rows(found)
        columns = {"operation": "operation", "share": "variance between shapes", "shapes": "shapes"}
        yield Table(name="between_shapes", title="Between shapes", columns=columns, rows=rows)
    yield from _condition_tables(found)


def _operation_table(found: SlowInstances) -> Table:
    of, told = found.instances.of_shapes, found.variation
    spreads = Spreads(of, told, found.instances.source)
    cv = np.nan_to_num(told.cv)
    # Those that lost most; those without slow instances by how widely they spread.
    order = np.lexsort((-cv * told.total_s, -found.lost_s))
    rows = [_operation_row(found, spreads, int(group)) for group in order[:MOST_LISTED]]
    columns = {
        "operation": "operation", "median": "median", "cv": "deviation / mean",
        "slow_share": "slow", "lost": "lost a step", "coincided": "coincided with",
    }  # fmt: skip
    left = max(len(order) - MOST_LISTED, 0)
    title = "Operations that lost most in slow instances" + (f" ({left} more)" if left else "")
    return Table(name="operations", title=title, columns=columns, rows=rows)


def _operation_row(found: SlowInstances, spreads: Spreads, group: int) -> dict[str, Any]:
    told = found.variation
    labels: Mapping[str, Any] = found.labels(group)
    hits = found.found_for(group)
    return {
        "operation": _called(found, group),
        **labels,
        "calls": int(told.calls[group]),
        "windows": int(told.windows[group]),
        **spreads.measures(group),
        "between_steps": _share_of_variance(float(told.between_steps[group])),
        "between_positions": _share_of_variance(float(told.between_positions[group])),
        "tracer": "may be the tracer's" if found.of_the_tracer[group] else "",
        "coincided": ", ".join(hit.condition for hit in hits),
    }


def _share_of_variance(value: float) -> str:
    return "" if np.isnan(value) else _percent(value)


def _coincidence_table(found: SlowInstances) -> Table:
    columns = {
        "operation": "operation", "condition": "condition", "with_slow": "slow",
        "with_others": "others", "difference": "difference", "q": "adjusted p", "found": "found",
    }  # fmt: skip
    rows = [_coincidence_row(found, pair) for pair in found.tested]
    title = "What coincided, surest first: share of slow instances with the condition less that of others"
    return Table(name="coincidences", title=title, columns=columns, rows=rows)


def _coincidence_row(found: SlowInstances, pair: Tested) -> dict[str, Any]:
    named = "(steps)" if pair.group is None else _called(found, pair.group)
    row: dict[str, Any] = {"operation": named, "condition": pair.condition, "words": pair.words}
    row["every_s"] = pair.every_s
    result = pair.result
    if isinstance(result, str):
        return {**row, "found": result}
    source = CLOCK if pair.group is None else found.instances.source
    row["difference"] = Figure(
        value=result.difference, unit="ratio", low=result.low, high=result.high, confidence=0.95,
        n=result.windows, status=Status.MEASURED, source=source,
        method="difference of shares; interval of Newcombe over windows, autocorrelation allowed for",
    )  # fmt: skip
    return {
        **row,
        "with_slow": _percent(result.with_slow),
        "with_others": _percent(result.with_others),
        "slow_windows": result.slow_windows,
        "p": f"{result.p:.2g}",
        "q": f"{pair.q:.2g}",
        "found": "yes" if pair.found else "no",
    }


def _shape_rows(found: SlowInstances) -> list[dict[str, Any]]:
    """Operations whose shapes change from step to step: how much of their variance is between them."""
    traced = found.instances
    shares = between_shapes(traced.seconds, traced.operations.key, traced.shaped.key)
    whole = np.bincount(traced.operations.key, traced.seconds, minlength=len(shares))
    windows = _windows_of(traced.shaped.key, traced)[traced.shaped.key]
    changes = np.zeros(len(shares), bool)
    # A shape that not every step of its operation has.
    changes[
        traced.operations.key[
            windows < _windows_of(traced.operations.key, traced)[traced.operations.key]
        ]
    ] = True
    worth = np.nan_to_num(shares) * whole
    order = [
        int(key)
        for key in np.argsort(-worth, kind="stable")
        if changes[key] and np.isfinite(shares[key])
    ]
    return [_shape_row(found, key, float(shares[key])) for key in order[:MOST_LISTED]]


def _windows_of(group: Codes, traced: TracedInstances) -> IntArray:
    """In how many traced steps each group is."""
    cells = np.unique(group * np.int64(len(traced.step)) + traced.window)
    return np.bincount(cells // max(len(traced.step), 1), minlength=int(group.max(initial=-1)) + 1)


def _shape_row(found: SlowInstances, operation: int, share: float) -> dict[str, Any]:
    traced = found.instances
    labels = traced.operations.shown[operation]
    shapes, counts = np.unique(
        traced.shaped.key[traced.operations.key == operation], return_counts=True
    )
    most = shapes[np.argsort(-counts, kind="stable")][:3]
    words = [
        f"{traced.shaped.shown[int(key)]['shapes'] or 'none'}: "
        f"{spoken(float(found.variation.median_s[key]))}"
        for key in most
    ]
    more = f", {len(shapes) - 3} more" if len(shapes) > 3 else ""
    return {
        "operation": f"{labels['name']} of {labels['layer']} ({labels['phase'] or 'no phase'})",
        "shapes": ", ".join(words) + more,
        "share": Figure(
            value=share, unit="ratio", status=Status.MEASURED, source=traced.source,
            n=int(counts.sum()), method="omega squared over instances",
            reason="no interval: the share describes these instances",
        ),
    }  # fmt: skip


def _condition_tables(found: SlowInstances) -> Iterator[Table]:
    columns = {
        "words": "while", "every": "seen every", "windows": "traced steps", "steps": "other steps",
    }  # fmt: skip
    rows: list[dict[str, Any]] = [
        {
            "condition": held.circumstance.name,
            "words": held.circumstance.words,
            "source": held.circumstance.source,
            "every": spoken(held.circumstance.every_s) if held.circumstance.every_s else "step",
            "every_s": held.circumstance.every_s,
            "limit": held.limit,
            "windows": _share_known(held.of_windows),
            "steps": _share_known(held.of_steps),
        }
        for held in found.held
    ]
    title = "Conditions, and in what share of the steps they held"
    yield Table(name="conditions", title=title, columns=columns, rows=rows)
    columns = {"words": "whether", "reason": "cannot be told, because"}
    rows = [
        {"condition": one.name, "words": one.words, "reason": one.reason} for one in found.unwatched
    ]
    yield Table(name="unwatched", title="What could not be looked at", columns=columns, rows=rows)


def _share_known(share: float) -> str:
    return "not known" if np.isnan(share) else _percent(share)
