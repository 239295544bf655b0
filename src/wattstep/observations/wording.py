"""Numbers in the sentences of observations."""

from __future__ import annotations

from collections.abc import Sequence

from wattstep.observations.concluding import listed
from wattstep.observations.deciding import FAILS, HOLDS, UNTESTABLE, Verdict
from wattstep.observations.observation import Judged
from wattstep.records.figure import Figure


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


def across(judged: Sequence[Judged], name: str, written: object) -> str:
    """The values of a figure over cases: "2.2 to 10.5 times", or the one that there is.

    Args:
        judged: The cases.
        name: Of the figure.
        written: A function that writes one value; its unit is said once.
    """
    assert callable(written)
    values = sorted(value for each in judged if (value := _value(each, name)) is not None)
    if not values:
        return "unknown"
    low, high = str(written(values[0])), str(written(values[-1]))
    if low == high:
        return high
    unit = high.partition(" ")[2]
    return f"{low.partition(' ')[0] if low.endswith(unit) else low} to {high}"


def _value(judged: Judged, name: str) -> float | None:
    figure: Figure | None = judged.figures().get(name)
    return None if figure is None else figure.value


def in_how_many(tested: Sequence[Judged], noun: str) -> str:
    """ "In all 5 models", "In 3 of 5 models (not in lenet; undecided in dqn)"."""
    count = len(tested)
    holding = [each for each in tested if each.verdict == HOLDS]
    if len(holding) == count:
        if count == 1:
            return f"In the one {noun} tested ({tested[0].case.label})"
        return f"In all {count} {noun}s"
    if not holding:
        return (
            f"In none of {count} {noun}s for sure"
            if count > 1
            else f"Not in {tested[0].case.label}"
        )
    against = labels(tested, FAILS)
    open_ = [each.case.label for each in tested if each.verdict not in (HOLDS, FAILS)]
    asides = [f"not in {listed(against)}"] if against else []
    asides += [f"undecided in {listed(open_)}"] if open_ else []
    return f"In {len(holding)} of {count} {noun}{'s' if count > 1 else ''} ({'; '.join(asides)})"


def of_part(tested: Sequence[Judged], name: str, noun: str) -> str:
    """Where one part holds: "in all 5 models", "in 3 of 5 models (not in 1, undecided in 1)"."""
    verdicts = [
        verdict
        for each in tested
        for part, verdict in zip(each.case.parts, each.parts, strict=True)
        if part.name == name and verdict != UNTESTABLE
    ]
    count, holding, against = len(verdicts), verdicts.count(HOLDS), verdicts.count(FAILS)
    if holding == count:
        return f"in all {count} {noun}s" if count > 1 else f"in the one {noun} tested"
    asides = [f"not in {against}"] if against else []
    asides += [f"undecided in {count - holding - against}"] if count > holding + against else []
    return f"in {holding} of {count} {noun}{'s' if count > 1 else ''} ({', '.join(asides)})"


def labels(judged: Sequence[Judged], verdict: Verdict) -> list[str]:
    """The cases with a verdict."""
    return [each.case.label for each in judged if each.verdict == verdict]
