"""The explanation of a run in a report: the sentences of `wattstep explain`, where they are quick to be had."""

from __future__ import annotations

from collections.abc import Sequence

from wattstep.insight.explain import explain
from wattstep.insight.explain.section import Section
from wattstep.report.values import plain
from wattstep.run.run import Run

MOST_INSTANCES = 60_000  # operations, one by one: with more it takes more than a second


def sections_of(run: Run) -> Sequence[Section] | str:
    """Sections of `explain` for a run, or the reason why they are left out."""
    count = 0 if run.breakdown.reason is not None else len(run.breakdown.rows.start_ns)
    if count > MOST_INSTANCES:
        return (
            f"{count:,} operations were recorded one by one, and to explain them takes a while: "
            f"wattstep explain {run.path.name}"
        )
    return tuple(explain(run))


def told(sections: Sequence[Section] | str) -> dict[str, object] | None:
    """Variables of the template: titles with their sentences, or a reason; None for nothing."""
    if isinstance(sections, str):
        return {"reason": plain(sections), "sections": []}
    titled = [(plain(one.title), _sentences(one)) for one in sections]
    return {"reason": "", "sections": titled} if titled else None


def _sentences(section: Section) -> list[str]:
    if section.reason is not None:
        return [f"Cannot be told: {plain(section.reason)}."]
    return [plain(sentence) for sentence in section.sentences]
