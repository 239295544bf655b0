"""Tables of the section "variance": operations, what coincided, shapes, conditions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from wattstep.attribution.codes import Codes, compact
from wattstep.attribution.spread import Spreads
from wattstep.attribution.tables.instances import TracedInstances
from wattstep.attribution.variation import between_shapes
from wattstep.insight.explain.section import Table
from wattstep.insight.explain.slow_instances import SlowInstances, Tested
from wattstep.recorded.power import spoken
from wattstep.schema.arrays import IntArray
from wattstep.schema.figure import CLOCK, Figure, Missing, Status

MOST_LISTED = 50


def called(slow_instances: SlowInstances, group: int) -> str:
    """An operation in words: its name, layer, phase and shapes."""
    labels = slow_instances.labels(group)
    shapes = f", {labels['shapes']}" if labels["shapes"] else ""
    return f"{labels['name']} of {labels['layer']} ({labels['phase'] or 'no phase'}{shapes})"


def percent(share: float) -> str:
    """A share in per cent, two digits; none from 10 % on."""
    return f"{100 * share:.0f} %" if share >= 0.1 or share == 0 else f"{100 * share:.2g} %"


def tables(slow_instances: SlowInstances) -> Iterator[Table]:
    """All of them, as far as there are operations.

    Args:
        slow_instances: Slow operations and steps of the run.
    """
    if not slow_instances.reason:
        yield _operation_table(slow_instances)
    yield _coincidence_table(slow_instances)
    if not slow_instances.reason:
        rows = shape_rows(slow_instances)
        columns = {"operation": "operation", "share": "variance between shapes", "shapes": "shapes"}
        yield Table(name="between_shapes", title="Between shapes", columns=columns, rows=rows)
    yield from _covariate_tables(slow_instances)


def _operation_table(slow_instances: SlowInstances) -> Table:
    of, variation = slow_instances.instances.of_shapes, slow_instances.variation
    spreads = Spreads(of, variation, slow_instances.instances.source)
    cv = np.nan_to_num(variation.cv)
    # Those that lost most; those without slow instances by how widely they spread.
    order = np.lexsort((-cv * variation.total_s, -slow_instances.lost_s))
    rows = [_operation_row(slow_instances, spreads, int(group)) for group in order[:MOST_LISTED]]
    columns = {
        "operation": "operation", "median": "median", "cv": "deviation / mean",
        "slow_share": "slow", "lost": "lost a step", "coincided": "coincided with",
    }  # fmt: skip
    left = max(len(order) - MOST_LISTED, 0)
    title = "Operations that lost most in slow instances" + (f" ({left} more)" if left else "")
    return Table(name="operations", title=title, columns=columns, rows=rows)


def _operation_row(slow_instances: SlowInstances, spreads: Spreads, group: int) -> dict[str, Any]:
    variation = slow_instances.variation
    labels = slow_instances.labels(group)
    hits = slow_instances.coincidences_of(group)
    return {
        "operation": called(slow_instances, group),
        **labels,
        "calls": int(variation.calls[group]),
        "windows": int(variation.windows[group]),
        **spreads.measures(group),
        "between_steps": _share_of_variance(float(variation.between_steps[group])),
        "between_positions": _share_of_variance(float(variation.between_positions[group])),
        "tracer": "may be the tracer's" if slow_instances.of_the_tracer[group] else "",
        "coincided": ", ".join(hit.condition for hit in hits),
    }


def _share_of_variance(value: float) -> str:
    return "" if np.isnan(value) else percent(value)


def _coincidence_table(slow_instances: SlowInstances) -> Table:
    columns = {
        "operation": "operation", "condition": "condition", "with_slow": "slow",
        "with_others": "others", "difference": "difference", "q": "adjusted p", "found": "found",
    }  # fmt: skip
    rows = [_coincidence_row(slow_instances, pair) for pair in slow_instances.tested]
    title = "What coincided, surest first: share of slow instances with the condition less that of others"
    return Table(name="coincidences", title=title, columns=columns, rows=rows)


def _coincidence_row(slow_instances: SlowInstances, pair: Tested) -> dict[str, Any]:
    named = "(steps)" if pair.group is None else called(slow_instances, pair.group)
    row: dict[str, Any] = {"operation": named, "condition": pair.condition, "words": pair.words}
    row["every_s"] = pair.every_s
    result = pair.result
    if isinstance(result, Missing):
        return {**row, "found": result}
    source = CLOCK if pair.group is None else slow_instances.instances.source
    row["difference"] = Figure(
        value=result.difference, unit="ratio", low=result.low, high=result.high, confidence=0.95,
        n=result.windows, status=Status.MEASURED, source=source,
        method="difference of shares; interval of Newcombe over windows, autocorrelation allowed for",
    )  # fmt: skip
    return {
        **row,
        "with_slow": percent(result.with_slow),
        "with_others": percent(result.with_others),
        "slow_windows": result.slow_windows,
        "p": f"{result.p:.2g}",
        "q": f"{pair.q:.2g}",
        "found": "yes" if pair.significant else "no",
    }


def shape_rows(slow_instances: SlowInstances) -> list[dict[str, Any]]:
    """Operations whose shapes change from step to step: how much of their variance is between them."""
    traced = slow_instances.instances
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
    return [_shape_row(slow_instances, key, float(shares[key])) for key in order[:MOST_LISTED]]


def _windows_of(group: Codes, traced: TracedInstances) -> IntArray:
    """In how many traced steps each group is."""
    cells, _ = compact(group * np.int64(len(traced.step)) + traced.window)
    return np.bincount(cells // max(len(traced.step), 1), minlength=int(group.max(initial=-1)) + 1)


def _shape_row(slow_instances: SlowInstances, operation: int, share: float) -> dict[str, Any]:
    traced = slow_instances.instances
    labels = traced.operations.shown[operation]
    shapes, counts = np.unique(
        traced.shaped.key[traced.operations.key == operation], return_counts=True
    )
    most = shapes[np.argsort(-counts, kind="stable")][:3]
    words = [
        f"{traced.shaped.shown[int(key)]['shapes'] or 'none'}: "
        f"{spoken(float(slow_instances.variation.median_s[key]))}"
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


def _covariate_tables(slow_instances: SlowInstances) -> Iterator[Table]:
    columns = {
        "words": "while", "every": "seen every", "windows": "traced steps", "steps": "other steps",
    }  # fmt: skip
    rows: list[dict[str, Any]] = [
        {
            "condition": held.covariate.name,
            "words": held.covariate.words,
            "source": held.covariate.source,
            "every": spoken(held.covariate.every_s) if held.covariate.every_s else "step",
            "every_s": held.covariate.every_s,
            "limit": held.limit,
            "windows": _share_known(held.of_windows),
            "steps": _share_known(held.of_steps),
        }
        for held in slow_instances.held
    ]
    title = "Conditions, and in what share of the steps they held"
    yield Table(name="conditions", title=title, columns=columns, rows=rows)
    columns = {"words": "whether", "reason": "cannot be determined, because"}
    rows = [
        {"condition": one.name, "words": one.words, "reason": one.reason}
        for one in slow_instances.unwatched
    ]
    yield Table(name="unwatched", title="What could not be looked at", columns=columns, rows=rows)


def _share_known(share: float) -> str:
    return "not known" if np.isnan(share) else percent(share)
