"""The explanation of a run in a report: the sentences of `wattstep explain`, where they are quick to be had."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from wattstep.insight.advise.advice import Advice
from wattstep.insight.advise.section import AdviceSection
from wattstep.insight.explain import explain
from wattstep.insight.explain.section import Section
from wattstep.report.html.explain_charts import charts_of
from wattstep.report.html.page import Plot, Plots
from wattstep.report.values import plain, show
from wattstep.report.wording import may_or_should
from wattstep.run.run import Run
from wattstep.schema.figure import Missing

MOST_INSTANCES = 60_000  # operations, one by one: with more it takes more than a second


def sections_of(run: Run) -> Sequence[Section] | Missing:
    """Sections of `explain` for a run, or the reason why they are left out."""
    count = 0 if run.breakdown.reason is not None else len(run.breakdown.rows.start_ns)
    if count > MOST_INSTANCES:
        return Missing(
            f"{count:,} operations were recorded one by one, and to explain them takes a while: "
            f"wattstep explain {run.path.name}"
        )
    return tuple(_without_place(section, run) for section in explain(run))


def _without_place(section: Section, run: Run) -> Section:
    """Commands with the run's name alone: pages get shared, and where it lay is nobody's business."""
    sentences = [text.replace(str(run.path), run.path.name) for text in section.sentences]
    return replace(section, sentences=tuple(sentences))


def variables_of(sections: Sequence[Section] | Missing, plots: Plots) -> dict[str, object] | None:
    """Variables of the template: titles with sentences and pictures, or a reason; None for nothing."""
    if isinstance(sections, Missing):
        return {"reason": plain(sections), "sections": [], "advice": []}
    advice = [
        _advice(each) for one in sections if isinstance(one, AdviceSection) for each in one.pieces
    ]
    reasons = {each["why"] for each in advice}
    titled = [
        (
            plain(one.title),
            [text for text in _sentences(one) if text not in reasons],
            _plots(one, plots),
        )
        for one in sections
        if not isinstance(one, AdviceSection)
    ]
    return {"reason": "", "sections": titled, "advice": advice} if sections else None


def _advice(piece: Advice) -> dict[str, object]:
    """What to do, what it saves, why, and how to try it."""
    return {
        "do": plain(piece.title), "gain": show(piece.gain), "verb": may_or_should(piece.gain), "why": plain(piece.why),
        "how": plain(piece.how),
    }  # fmt: skip


def _plots(section: Section, plots: Plots) -> list[Plot]:
    placed = (plots.place(chart, title) for title, chart in charts_of(section))
    return [plot for plot in placed if plot is not None]


def _sentences(section: Section) -> list[str]:
    if section.reason is not None:
        return [f"Cannot be determined: {plain(section.reason)}."]
    return [plain(sentence) for sentence in section.sentences]
