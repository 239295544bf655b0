"""A comparison in words: what is shown, what is not, and what more processes would show."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from wattstep.insight.compare.drift import Drift
from wattstep.insight.compare.metrics import Compared, Plan
from wattstep.insight.compare.operations import ComparedOperations
from wattstep.insight.compare.sides import Side
from wattstep.schema.figure import Figure, Status
from wattstep.schema.metrics import METRICS
from wattstep.schema.spelling import spell
from wattstep.stats.differences import MOST_PROCESSES

_NUMBERS = (
    "no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven",
    "twelve",
)  # fmt: skip
LARGEST: Final = 3  # operations that are named
MANY_TIMES: Final = 3.0  # from here on a change is told as a factor
ALMOST_NOTHING: Final = 0.005  # of the other: "100 % less"
DIFFER_TOO_MUCH: Final = "steps of each differ too much"
MOST_TIMES: Final = 100.0  # from here on as no more than that it is beyond


def number(count: int) -> str:
    """As a word up to twelve."""
    return _NUMBERS[count] if count < len(_NUMBERS) else str(count)


def percent(share: float) -> str:
    """Two digits: "12 %", "3.4 %", "0.25 %"."""
    size = abs(share) * 100
    if size < 0.005:
        return "0 %"
    decimals = 0 if size >= 9.95 else 1 if size >= 0.995 else 2
    return f"{size:.{decimals}f} %"


def answer(
    sides: tuple[Side, Side],
    metrics: Mapping[str, Compared],
    operations: ComparedOperations,
    drift: Drift,
) -> Iterator[str]:
    """Sentences, the most important first."""
    counts = (len(sides[0].paths), len(sides[1].paths))
    if counts == (1, 1):
        yield (
            "One process of each: what differs below differs between these two runs. Whether the "
            "configurations do, they cannot tell: two runs of one and the same may differ as much. "
            "Two or more runs of each would tell."
        )
    mentioned: set[str] = set()
    for name in _spoken_of(metrics):
        if (compared := metrics.get(name)) is not None:
            yield (words := sentence(compared, counts, mentioned))
            mentioned.update(mentioned_by(compared, words))
    yield from _earned_back(metrics)
    yield from _waiting(metrics)
    yield from drift.sentences
    yield _of_operations(operations)


def _spoken_of(metrics: Mapping[str, Compared]) -> tuple[str, ...]:
    """By step where steps are of one size, else by sample."""
    by_step = not metrics["step_time"].ratio.missing
    time = "step_time" if by_step or metrics["throughput"].ratio.missing else "throughput"
    energy = "energy_per_step"
    if metrics[energy].ratio.missing and not metrics["energy_per_sample"].ratio.missing:
        energy = "energy_per_sample"
    cpu = () if metrics["cpu_time_per_step"].ratio.missing else ("cpu_time_per_step",)
    return (time, *cpu, energy, "peak_memory")


def _earned_back(metrics: Mapping[str, Compared]) -> Iterator[str]:
    """After how many steps compiling has paid for itself, where one side alone compiles."""
    compiling, step = metrics.get("compile_time"), metrics["step_time"]
    if compiling is None or compiling.a.missing == compiling.b.missing or step.ratio.missing:
        return
    letter, cost, sign = ("B", compiling.b, -1) if compiling.a.missing else ("A", compiling.a, 1)
    took, gain = cost.value or 0.0, step.difference.value or 0.0
    head = f"Compiling: {letter} takes {spell(took, 's').value} to compile"
    if step.of_these != ("lower" if letter == "B" else "higher"):
        yield f"{head}, which no step that is shown to be shorter earns back."
        return
    ends = sorted(sign * end for end in (step.difference.low, step.difference.high) if end)
    # An interval that holds no gain has no number of steps.
    within = (
        f" ({took / ends[1]:,.0f} to {took / ends[0]:,.0f})" if min(ends, default=0) > 0 else ""
    )
    yield f"{head}; its shorter steps earn that back after {took / (sign * gain):,.0f} steps{within}."


def _waiting(metrics: Mapping[str, Compared]) -> Iterator[str]:
    """That CPU time accounts for part of a longer or shorter step only, where it surely does."""
    time, cpu = metrics["step_time"], metrics["cpu_time_per_step"].ratio
    ends = (cpu.low, cpu.high, time.ratio.low, time.ratio.high)
    if time.of_these not in ("lower", "higher") or any(end is None for end in ends):
        return
    low, high, least, most = (float(end or 0.0) for end in ends)
    if high < least if time.of_these == "higher" else low > most:
        yield (
            "The difference of time is more than that of CPU time: the rest is waiting, for other "
            "programs, for data, or of threads for each other."
        )


def sentence(
    compared: Compared, counts: tuple[int, int], mentioned: Collection[str] = frozenset()
) -> str:
    """Sentence on what is shown of a metric, or is not.

    Args:
        compared: The metric.
        counts: Number of runs of each side.
        mentioned: Reasons not to claim it that stand before: each stands there once.
    """
    words = METRICS[compared.name]
    topic = words.topic + (" (modelled)" if _modelled(compared) else "")
    if compared.ratio.missing:
        return f"{topic}: not compared: {compared.ratio.reason}."
    single = counts == (1, 1)
    if compared.of_these != "not shown":
        clause = f"{words.subject} {words.verb} {change(compared.ratio)} {words.thing}"
        if compared.not_claimed:
            reasons = " and ".join(one for one in compared.not_claimed if one not in mentioned)
            clause = f"{_of_these(counts)}, {clause}"
            if reasons:
                clause += f"; that is not shown to be the program's: {reasons}"
        return f"{topic}: {clause}.{_beside(compared.ratio)}"
    if compared.ratio.low is None or compared.ratio.high is None:
        if None not in (compared.a.low, compared.b.low):  # they reach 0: the ratio may be anything
            return _unlike_steps(topic, mentioned)
        clause = f"{words.subject} {words.verb} {_value_in_words(compared.ratio)} {words.thing}"
        return f"{topic}: {clause}, with unknown certainty: no interval is known."
    if compared.ratio.low < ALMOST_NOTHING and compared.ratio.high > MANY_TIMES:
        return _unlike_steps(topic, mentioned)
    limits = f"{words.subject} {words.verb} {between(compared.ratio)} {words.thing}"
    if single:
        return f"{topic}: no difference between these two runs that their steps can show: {limits}."
    who = _who(counts)
    return f"{topic}: no difference that {who} can show: {limits}{_planned(compared.plan)}."


def _unlike_steps(topic: str, mentioned: Collection[str]) -> str:
    if DIFFER_TOO_MUCH in mentioned:
        return f"{topic}: likewise."
    return f"{topic}: no difference that can be shown: {DIFFER_TOO_MUCH}."


def mentioned_by(compared: Compared, words: str) -> tuple[str, ...]:
    """Reasons that a sentence on a metric gives: further ones need not."""
    return (*compared.not_claimed, *([DIFFER_TOO_MUCH] if DIFFER_TOO_MUCH in words else []))


def change(ratio: Figure) -> str:
    """Change in words, from an interval that excludes 1: "12 % to 15 % less"."""
    assert ratio.low is not None
    assert ratio.high is not None
    if ratio.low >= MOST_TIMES:
        return f"more than {MOST_TIMES:g} times the"
    if ratio.low > 2 or (ratio.low > 1 and ratio.high >= MANY_TIMES):
        return f"{ratio.low:.2g} to {_times(ratio.high)} times the"
    low, high = sorted((abs(ratio.low - 1), abs(ratio.high - 1)))
    ends = percent(low) if percent(low) == percent(high) else f"{percent(low)} to {percent(high)}"
    return f"{ends} {'less' if ratio.high < 1 else 'more'}"


def _value_in_words(ratio: Figure) -> str:
    """Change in words, from a ratio without an interval: "8.4 % more", "12 times the"."""
    value = ratio.value or 1.0
    if value >= MANY_TIMES:
        return f"{_times(value)} times the"
    share = percent(value - 1)
    return "as much" if share == "0 %" else f"{share} {'less' if value < 1 else 'more'}"


def between(ratio: Figure) -> str:
    """The limits of an interval that holds 1: "between 3 % less and 4 % more"."""
    assert ratio.low is not None
    assert ratio.high is not None
    low, high = min(ratio.low, 1.0), max(ratio.high, 1.0)
    more = f"{percent(high - 1)} more" if high < 2 else f"{_times(high)} times as much"
    return f"between {percent(low - 1)} less and {more}"


def _times(ratio: float) -> str:
    """A factor: two digits, and beyond a hundred no figure of runs so unlike."""
    return f"{ratio:.2g}" if ratio < MOST_TIMES else f"more than {MOST_TIMES:g}"


def _who(counts: tuple[int, int]) -> str:
    if counts[0] == counts[1]:
        return f"{number(counts[0])} processes of each"
    return f"{number(counts[0])} and {number(counts[1])} processes"


def _of_these(counts: tuple[int, int]) -> str:
    return "of these two runs" if counts == (1, 1) else "of these runs"


def _planned(plan: Plan | None) -> str:
    """Differences that these and more processes would show, in words."""
    if plan is None:
        return ""
    effect = f"{100 * plan.effect:.2g} %"
    if plan.needs is not None and plan.needs <= plan.processes:
        return f"; a difference of {effect} would likely have been seen"
    now = "" if plan.shows is None else f"; these show {percent(plan.shows)} or more"
    if plan.needs is None:
        return f"{now}; {MOST_PROCESSES} of each would not show {effect}"
    more = plan.needs - plan.processes
    return (
        f"{now}; {number(more)} more process{'es' if more > 1 else ''} of each would show {effect}"
    )


def _beside(ratio: Figure) -> str:
    """That the error of the sensors is in it, where it is."""
    reason = ratio.reason or ""
    return f" D{reason[1:]}." if reason.startswith("different sensors") else ""


def _modelled(compared: Compared) -> bool:
    return compared.name.startswith("energy") and compared.a.status is Status.MODELLED


def _of_operations(operations: ComparedOperations) -> str:
    if operations.reason is not None:
        return f"Operations: not compared: {operations.reason}."
    rows = operations.differing("time")
    which = "in these runs " if operations.of_these else ""
    tested = operations.tested.get("time", 0)
    if not operations.rows:
        return f"Operations: not compared: there is none that all runs of both have{_alone(operations)}."
    parts = [
        f"Operations: {which}{number(len(rows)) if rows else 'none'} of {number(tested)} differ"
        f"{'s' if len(rows) == 1 else ''} in time (at most 5 % of them by false discovery)"
    ]
    if rows:
        named = "; ".join(_named(row.key, row.quantities["time"].ratio) for row in rows[:LARGEST])
        parts.append(f": {named}")
    return "".join(parts) + f"{_alone(operations)}."


def _alone(operations: ComparedOperations) -> str:
    """How many operations one side alone has, as the end of a sentence."""
    sides = (("A", operations.only_a), ("B", operations.only_b))
    counts = [f"{len(names):,} only in {side}" for side, names in sides if names]
    return f"; {', '.join(counts)}" if counts else ""


def _named(key: Mapping[str, str], ratio: Figure) -> str:
    return f"{key['name']} {key['phase']} in {key['layer']} {change(ratio)} time"


def signed_percent(ratio: float) -> str:
    """A ratio as a change: "-13 %", "+2.4 %", "×5.8"."""
    if not math.isfinite(ratio):
        return "?"
    if ratio >= MANY_TIMES:
        return f"×{ratio:.2g}" if ratio < MOST_TIMES else f"×{MOST_TIMES:g} or more"
    change = percent(ratio - 1)
    return change if change == "0 %" else f"{'-' if ratio < 1 else '+'}{change}"


def signed_change(ratio: Figure, *, brief: bool = False) -> str:
    """A ratio as a change with its interval: "-13 % (-15 to -12)"; "" where it is missing."""
    if ratio.value is None:
        return ""
    value = signed_percent(ratio.value)
    if ratio.low is None or ratio.high is None or brief:
        return value
    low, high = (signed_percent(end).removesuffix(" %") for end in (ratio.low, ratio.high))
    return f"{value} ({low} to {high})"


def joined(parts: Sequence[str]) -> str:
    """As a list in a sentence."""
    return ", ".join(parts[:-1]) + " and " + parts[-1] if len(parts) > 1 else "".join(parts)
