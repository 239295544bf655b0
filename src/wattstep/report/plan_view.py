"""What a screen and a page show of a plan: its figures with their limits, the front, and the words around them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from wattstep.plan import Estimate, Plan
from wattstep.report.values import Shown, show
from wattstep.schema.spelling import quantity

ROWS: Final = (
    ("a session", "time"),
    ("its energy", "energy"),
    ("of the battery", "battery"),
    ("temperature at its end", "temperature"),
    ("memory in use", "memory"),
    ("one update", "step_time"),
)
MOST_ROWS: Final = 8  # of the front
CERTAIN: Final = 0.995


@dataclass(frozen=True, kw_only=True)
class FigureRow:
    """A figure of the recommended plan.

    Attributes:
        label: What it is.
        shown: Its value and interval.
        bound: Its limit, "" where there is none.
        chance: Probability that the limit holds, in words.
        holds: Whether that is as sure as was asked for.
    """

    label: str
    shown: Shown
    bound: str = ""
    chance: str = ""
    holds: bool = True


@dataclass(frozen=True, kw_only=True)
class FrontRow:
    """A configuration on the front.

    Attributes:
        text: The configuration.
        figures: Time, energy and memory of a session.
        keeps: Whether it keeps the limits.
        chosen: Whether it is the recommended one.
    """

    text: str
    figures: tuple[Shown, ...]
    keeps: bool
    chosen: bool


def headline(plan: Plan) -> str:
    """What was asked."""
    every = plan.session.every_s
    often = "" if every is None else f" every {quantity(every, 's')}" * (every != 86400.0)
    often = " every day" if every == 86400.0 else often
    limits = ", ".join(limit.text for limit in plan.budget.limits)
    within = f", within {limits}" if limits else ""
    return f"{plan.title} on {plan.question.device.title}: {plan.session.samples:,} samples{often}{within}"


def answer(plan: Plan) -> str:
    """What is recommended, or that nothing is."""
    keeping = sum(map(plan.keeps, plan.estimates))
    searched = f"{len(plan.estimates):,} searched"
    if plan.chosen is not None:
        return (
            f"{plan.chosen.configuration.text}: the least {plan.least} of {keeping:,} that keep the limits, "
            f"{searched}"
        )
    worst = max(plan.verdicts(plan.nearest), key=lambda each: each.short)
    return (
        f"none of {searched} keeps the limits. Nearest: {plan.nearest.configuration.text}, which holds "
        f"{worst.bound} of {worst.name} with {100 * worst.chance:.0f} % and would need "
        f"{worst.budget} for {100 * worst.sure:.0f} %"
    )


def same_training(plan: Plan) -> str:
    """What was searched of what changes the mathematics."""
    if plan.question.allow:
        return (
            f"Searched with what trains differently, too: {', '.join(sorted(plan.question.allow))}."
        )
    return f"Searched is what trains the same: {plan.question.update:,} samples an update."


def figure_rows(plan: Plan) -> list[FigureRow]:
    """Figures of the recommended plan, or of the nearest; none that is missing without a limit."""
    verdicts = plan.verdicts(plan.nearest)
    rows = []
    for label, name in ROWS:
        figure = plan.nearest.figures[name]
        mine = [each for each in verdicts if each.figure is figure]
        if figure.missing and not mine:
            continue
        for number, each in enumerate(mine or [None]):
            rows.append(
                FigureRow(
                    label=label if number == 0 else "",
                    shown=show(figure),
                    bound="" if each is None else each.bound,
                    chance="" if each is None else chance(each.chance),
                    holds=each is None or each.holds,
                )
            )
    return rows


def chance(probability: float) -> str:
    """A probability in words."""
    if probability >= CERTAIN:
        return "> 99 %"
    return "< 1 %" if probability <= 1 - CERTAIN else f"{100 * probability:.0f} %"


def front_rows(plan: Plan, most: int | None = MOST_ROWS) -> list[FrontRow]:
    """The front, the quickest first.

    Args:
        plan: The plan.
        most: Rows: beside the ends and the recommended one, some evenly between; None: all.
    """
    front = plan.front
    return [
        FrontRow(
            text=each.configuration.text,
            figures=tuple(show(each.figures[name]) for name in ("time", "energy", "memory")),
            keeps=plan.keeps(each),
            chosen=each is plan.chosen,
        )
        for each in (front if most is None else _some(front, plan.chosen, most))
    ]


def _some(front: tuple[Estimate, ...], chosen: Estimate | None, most: int) -> list[Estimate]:
    if len(front) <= most:
        return list(front)
    numbers = {round(n * (len(front) - 1) / (most - 2)) for n in range(most - 1)}
    numbers |= {n for n, each in enumerate(front) if each is chosen}
    return [front[n] for n in sorted(numbers)]


def losing_lines(plan: Plan) -> list[str]:
    """Why others lose, a line a kind; what cannot be trained at all."""
    lines = [f"{each.what}: {each.best} {each.why}" for each in plan.losing]
    lines += [f"{one.text} cannot be: {why}" for one, why in plan.refused]
    return lines
