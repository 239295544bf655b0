"""Numbers in the sentences of observations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from wattstep.insight.observe.deciding import FAILS, HOLDS, UNDECIDED, UNTESTABLE, Verdict
from wattstep.insight.observe.observation import Judged
from wattstep.schema.figure import Figure


def percent(value: float) -> str:
    """A ratio as "71 %"; one decimal below ten."""
    return f"{100 * value:.0f} %" if abs(value) >= 0.0995 else f"{100 * value:.1f} %"


def points(value: float) -> str:
    """A difference of ratios as "3.4 points"."""
    return f"{100 * value:.1f} points"


def times(value: float) -> str:
    """A factor as "2.31 times"."""
    return f"{value:.3g} times"


def plain_number(value: float) -> str:
    """Two decimals."""
    return f"{value:.2f}".replace("-0.00", "0.00")


UNKNOWN: Final = "unknown"
_BOTH: Final = 2
WRITTEN: Final = {"percent": percent, "points": points, "times": times, "number": plain_number}


def in_words(
    sentences: Sequence[str] | Callable[[Sequence[Judged]], Sequence[str]],
    tested: Sequence[Judged], noun: str,
) -> list[str]:  # fmt: skip
    """The answer; a sentence after the first is left out where a figure in it is not known.

    Args:
        sentences: With "{everywhere}" or, of a part, "{name:where}" before what is claimed, for the
            cases in which it holds; "{name:times}" (or another of `WRITTEN`) for the values of a figure.
        tested: The cases.
        noun: The noun for a case.
    """
    if callable(sentences):
        return list(sentences(tested))
    figures = _Figures(tested, noun)
    first, *others = (each.format_map(figures) for each in sentences)
    return [first, *(each for each in others if UNKNOWN not in each)]


class _Figures(dict[str, Any]):
    """Values that a template may name."""

    def __init__(self, tested: Sequence[Judged], noun: str) -> None:
        super().__init__(everywhere=in_how_many(tested, noun))
        self._cases = tested, noun

    def __missing__(self, name: str) -> _Named:
        return _Named(name, *self._cases)


@dataclass(frozen=True)
class _Named:
    """A figure of the cases, in a sentence."""

    name: str
    tested: Sequence[Judged]
    noun: str

    def __format__(self, how: str) -> str:
        if how == "where":
            return of_part(self.tested, self.name, self.noun)
        return across(self.tested, self.name, WRITTEN[how])


def across(judged: Sequence[Judged], name: str, written: Callable[[float], str]) -> str:
    """The values of a figure over cases: "2.2 to 10.5 times", or the one that there is.

    Args:
        judged: The cases.
        name: Of the figure.
        written: A function that writes one value; its unit is said once.
    """
    values = sorted(value for each in judged if (value := _value(each, name)) is not None)
    if not values:
        return UNKNOWN
    low, high = written(values[0]), written(values[-1])
    if low == high:
        return high
    unit = high.partition(" ")[2]
    return f"{low.partition(' ')[0] if low.endswith(unit) else low} to {high}"


def _value(judged: Judged, name: str) -> float | None:
    figure: Figure | None = judged.figures().get(name)
    return None if figure is None else figure.value


def in_how_many(tested: Sequence[Judged], noun: str) -> str:
    """The cases in which a claim holds, as the words before it: "In all 5 models", ..."""
    return _where([(each.case.label, each.verdict) for each in tested], noun)


def of_part(tested: Sequence[Judged], name: str, noun: str) -> str:
    """The cases in which one part holds, as the words before it."""
    verdicts = [
        (each.case.label, verdict)
        for each in tested
        for part, verdict in zip(each.case.parts, each.parts, strict=True)
        if part.name == name and verdict != UNTESTABLE
    ]
    return _where(verdicts, noun) if verdicts else UNKNOWN


def _where(verdicts: Sequence[tuple[str, Verdict]], noun: str) -> str:
    count = len(verdicts)
    holding, against, undecided = (
        [label for label, verdict in verdicts if verdict == wanted]
        for wanted in (HOLDS, FAILS, UNDECIDED)
    )
    if len(holding) == count:
        return (
            f"In {_all_of(holding, noun)}"
            if count > 1
            else f"In the one {noun} tested ({holding[0]})"
        )
    if len(undecided) == count:
        return f"It is undecided in {_all_of(undecided, noun)} whether"
    if len(against) == count:
        where = f"any of {count} {noun}s" if count > 1 else against[0]
        return f"It does not hold in {where} that"
    asides = [f"not in {listed(against)}"] if against else []
    asides += [f"undecided in {listed(undecided)}"] if undecided else []
    aside = "; ".join(asides)
    if not holding:
        return f"It holds in none of {count} {noun}s ({aside}) that"
    return f"In {len(holding)} of {count} {noun}s ({aside})"


def _all_of(names: Sequence[str], noun: str) -> str:
    if len(names) == 1:
        return names[0]
    return f"both {noun}s" if len(names) == _BOTH else f"all {len(names)} {noun}s"


def listed(names: Sequence[str], most: int = 4) -> str:
    """Names with commas, "and" before the last; of many the first few."""
    unique = list(dict.fromkeys(names))
    if len(unique) > most:
        return f"{', '.join(unique[:most])} and {len(unique) - most} more"
    return " and ".join(filter(None, [", ".join(unique[:-1]), unique[-1]])) if unique else ""
