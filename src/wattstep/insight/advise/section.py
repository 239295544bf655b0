"""Advice: what would make the training cheaper, ranked by the gain that it should bring."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from wattstep.insight.advise import all_advice
from wattstep.insight.advise.advice import Advice
from wattstep.insight.advise.facts import Facts
from wattstep.insight.explain.operations import work_of
from wattstep.insight.explain.section import Row, Section, Table
from wattstep.run import Run
from wattstep.schema.figure import Figure, Missing

TITLE: Final = "Advice, by the gain that it should bring"
COLUMNS: Final = {"do": "do", "gain": "should save", "how": "try it"}
REST: Final = {"name": "advice", "reason": "why not here"}


@dataclass(frozen=True, kw_only=True)
class AdviceSection(Section):
    """The section of advice, with the pieces that its rows show.

    Attributes:
        pieces: Advice whose condition holds, the most gain first.
    """

    pieces: tuple[Advice, ...] = ()


def advice(run: Run, beside: Sequence[Run] = ()) -> AdviceSection:
    """Pieces of advice whose condition holds, the most gain first; and why the others do not.

    Args:
        run: A run.
        beside: Other runs that were given with it: of other batches, say.
    """
    work = work_of(run)
    if isinstance(work, Missing):
        return AdviceSection(name="advice", title=TITLE, reason=work)
    pieces = all_advice(Facts(run, work, beside))
    given = _ranked(pieces)
    refused = [{"name": name.replace("_", " "), "reason": one} for name, one in pieces.items()
               if isinstance(one, Missing)]  # fmt: skip
    rows = [_row(name, one) for name, one in given.items()]
    return AdviceSection(
        name="advice",
        title=TITLE,
        pieces=tuple(given.values()),
        sentences=tuple(_sentences(list(given.values()))),
        tables=(
            Table(name="advice", title="What to do", columns=COLUMNS, rows=tuple(rows)),
            Table(name="not_advised", title="Not advised", columns=REST, rows=tuple(refused)),
        ),
    )


def ranked(run: Run) -> list[Advice] | None:
    """The advice whose condition holds, the most gain first; None where operations are not known."""
    work = work_of(run)
    if isinstance(work, Missing):
        return None
    return list(_ranked(all_advice(Facts(run, work, ()))).values())


def _ranked(pieces: Mapping[str, Advice | Missing]) -> dict[str, Advice]:
    given = {name: one for name, one in pieces.items() if isinstance(one, Advice)}
    return dict(sorted(given.items(), key=lambda one: -_rank(one[1].gain)))


def _rank(gain: Figure) -> float:
    """Sort key by gain: advice whose gain only a run can tell comes first, as all other times hang on it."""
    return math.inf if gain.value is None else gain.value


def _row(name: str, one: Advice) -> Row:
    return {
        "name": name, "do": one.title, "why": one.why, "gain": one.gain, "how": one.how,
        "evidence": dict(one.evidence),
    }  # fmt: skip


def _sentences(ranked: Sequence[Advice]) -> list[str]:
    if not ranked:
        return ["No advice: no condition of any holds in this run, see below why."]
    lines = [f"{number}. {one.title}. {one.why}" for number, one in enumerate(ranked, 1)]
    lines.append(
        "Gains are shares of the time of a sample, predicted from measured shares: none of these "
        "runs took place, and gains of several do not add up. Try each, and wattstep compare."
    )
    return lines
