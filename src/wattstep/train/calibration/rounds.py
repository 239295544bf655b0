"""Ceilings that were measured several times while others disturbed: the best of all, and how much they may hide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from wattstep.schema.ceilings import Ceilings, Level
from wattstep.schema.figure import Figure
from wattstep.train.calibration.load import DISTURBED


@dataclass(frozen=True)
class Round:
    """Ceilings of one round.

    Attributes:
        ceilings: As they were measured.
        others: Cores that other processes took meanwhile.
        share: Part of its cores' time that measuring got, above 0 and 1 at most.
    """

    ceilings: Ceilings
    others: float
    share: float


def best_of_rounds(rounds: Sequence[Round]) -> Ceilings:
    """The best of each ceiling.

    Rates are of time that goes by. Where others took cores in every round, a core that was ours alone
    would have reached up to the best rate over the share of its time that was: the range ends there.

    Args:
        rounds: One at least, of one machine; the last one ended them.
    """
    last = rounds[-1]
    quiet = [each for each in rounds if each.others <= DISTURBED]
    chosen = quiet or rounds
    room = 1.0 if quiet else max(1.0, 1 / max(each.share for each in chosen))
    measured = [each.ceilings for each in chosen]

    def best(figures: Sequence[Figure]) -> Figure:
        figure = max(figures, key=lambda one: one.value or 0.0)
        if figure.value is None or room == 1.0:
            return figure
        return replace(
            figure,
            high=room * figure.value,
            method=f"{figure.method or ''}; of {len(chosen)} rounds that others disturbed: undisturbed up to "
            f"{room:.2g} times as much",
        )

    note = (
        f"ceilings: other processes took {min(each.others for each in chosen):.1f} cores or more in each of "
        f"{len(chosen)} rounds; undisturbed they may be up to {room:.2g} times higher, and their ranges reach there"
    )
    levels = tuple(
        Level(
            name=level.name,
            size=level.size,
            copy=best([one.levels[place].copy for one in measured]),
            triad=best([one.levels[place].triad for one in measured]),
        )
        for place, level in enumerate(last.ceilings.levels)
    )
    return replace(
        last.ceilings,
        compute={
            name: best([one.compute[name] for one in measured]) for name in last.ceilings.compute
        },
        levels=levels,
        notes=(*last.ceilings.notes, *(() if quiet else (note,))),
    )
