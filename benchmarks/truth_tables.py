"""What the campaign of truths found, in tables: how many intervals hold, how wide, how far off."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

OVERALL, EACH = 0.93, 0.90
DEVIATIONS = 1.645  # one-sided 95 %
WINDOWS = ((0, 1), (1, 10), (10, 100), (100, 1000))  # lengths of operations
LEVELS = ("operations", "layers", "phases", "kinds", "groups", "rests", "steps")


class Tally:
    """Figures of several programs together.

    Args:
        trials: The programs.
        wanted: Which figures.
    """

    def __init__(
        self, trials: Iterable[dict[str, Any]], wanted: Callable[[dict[str, Any]], bool]
    ) -> None:
        by_program = [[one for one in t["compared"] if wanted(one)] for t in trials]
        every = [one for figures in by_program for one in figures]
        told = [one for one in every if one["value"] is not None]
        self.told, self.missing = len(told), len(every) - len(told)
        self.held = sum(one["covered"] for one in told)
        counts = [[one["covered"] for one in of if one["value"] is not None] for of in by_program]
        self._programs = [(sum(of), len(of)) for of in counts if of]
        scores = [one["score"] for one in told if np.isfinite(one["score"])]
        self.score = float(np.mean(scores)) if scores else float("nan")
        known = [one for one in told if one["truth"] > 0]
        self.error = _median([abs(one["value"] / one["truth"] - 1) for one in known])
        bound = [one for one in known if one["low"] is not None and one["high"] is not None]
        self.width = _median([(one["high"] - one["low"]) / one["truth"] for one in bound])

    @property
    def coverage(self) -> float:
        return self.held / self.told if self.told else float("nan")

    @property
    def by_chance(self) -> float:
        """1.645 standard errors of the coverage: figures of a program err together."""
        if not self.told:
            return 0.0
        share = min(self.coverage, 0.95)
        binomial = share * (1 - share) / self.told
        n = len(self._programs)
        if n < 2:
            return float(DEVIATIONS * np.sqrt(binomial))
        off = [held - self.coverage * told for held, told in self._programs]
        clustered = n / (n - 1) * float(np.sum(np.square(off))) / self.told**2
        return float(DEVIATIONS * np.sqrt(max(binomial, clustered)))

    def below(self, least: float) -> bool:
        return bool(self.told) and self.coverage + self.by_chance < least

    def words(self, least: float) -> str:
        held, chance = 100 * self.coverage, 100 * self.by_chance
        return f"{held:.1f} % held, {chance:.1f} by chance, {100 * least:.0f} % promised"

    def row(self, least: float) -> str:
        if not self.told:
            return f"0 | {self.missing} | | | |"
        mark = " **below**" if self.below(least) else ""
        return (
            f"{self.told} | {self.missing} | {100 * self.coverage:.1f} % ± {100 * self.by_chance:.1f}"
            f"{mark} | {self.score:.3g} | {100 * self.error:.2g} % | {100 * self.width:.2g} %"
        )


def _median(values: list[float]) -> float:
    return float(np.median(values)) if values else float("nan")


def of_energy(one: dict[str, Any]) -> bool:
    return one["quantity"] != "time"


def of_time(one: dict[str, Any]) -> bool:
    return one["quantity"] == "time"


def in_level(level: str, of: Callable[[dict[str, Any]], bool]) -> Callable[[dict[str, Any]], bool]:
    return lambda one: one["level"] == level and of(one)


def lasting(
    low: float, high: float, of: Callable[[dict[str, Any]], bool]
) -> Callable[[dict[str, Any]], bool]:
    return lambda one: one["level"] == "operations" and low <= one["windows"] < high and of(one)


HEAD = "| {} | told | missing | held ± chance | score | median error | median width |\n" + "|---" * 7 + "|"  # fmt: skip


def report(trials: list[dict[str, Any]]) -> bool:
    """Prints the tables, and what is not as it should be; whether all is."""
    below: list[str] = []
    for part in dict.fromkeys(t["part"] for t in trials):
        mine = [t for t in trials if t["part"] == part]
        if part == "named":
            _named_figures(mine)
        below += _tables(part, mine)
    kept = _reasons(trials)
    print(f"\nbelow what is promised: {len(below)}")
    for line in below:
        print(f"  {line}")
    return kept and not below


def _tables(part: str, trials: list[dict[str, Any]]) -> list[str]:
    """Prints energy and time by scenario, table, and length; what is below."""
    below = []
    for title, of in (("energy", of_energy), ("time", of_time)):
        scenarios = {
            name: Tally([t for t in trials if t["scenario"] == name], of)
            for name in dict.fromkeys(t["scenario"] for t in trials)
        }
        parts = {f"*{level}*": Tally(trials, in_level(level, of)) for level in LEVELS}
        for low, high in WINDOWS:
            name = f"*operations of {low} to {high} windows*"
            parts[name] = Tally(trials, lasting(low, high, of))
        every = {"**all**": Tally(trials, of)}
        print(f"\n{part}: {title}\n\n{HEAD.format('scenario')}")
        for least, tallies in ((EACH, scenarios), (EACH, parts), (OVERALL, every)):
            for name, tally in tallies.items():
                print(f"| {name} | {tally.row(least)} |")
                if tallies is not parts and tally.below(least):
                    below.append(f"{part}, {title}: {name.strip('*')} ({tally.words(least)})")
    return below


def _named_figures(trials: list[dict[str, Any]]) -> None:
    print("\n| case | seed | row | truth in mJ | told |\n|---|---|---|---|---|")
    for t in trials:
        for one in t["compared"]:
            if one["quantity"] != "energy" or one["level"] not in ("operations", "phases", "steps"):
                continue
            if t["operations"] > 4 and one["level"] == "operations" and one["value"] is None:
                continue
            told = f"missing: {one['reason'][:80]}"
            if one["value"] is not None:
                ends = [float("nan") if e is None else 1e3 * e for e in (one["low"], one["high"])]
                held = "" if one["covered"] else " **not held**"
                told = f"{1e3 * one['value']:.4g} ({ends[0]:.4g} to {ends[1]:.4g}){held}"
            print(f"| {t['scenario']} | {t['seed']} | {one['what']} | {1e3 * one['truth']:.4g} | {told} |")  # fmt: skip


def _reasons(trials: list[dict[str, Any]]) -> bool:
    """Prints why figures are missing, and broken promises; whether there are none of these."""
    reasons = Counter(
        _plain(one["reason"]) for t in trials for one in t["compared"] if one["value"] is None
    )
    print("\nmissing, because")
    for reason, count in reasons.most_common(15):
        print(f"  {count:6d}  {reason}")
    broken = [(t, text) for t in trials for text in t["violations"]]
    kinds = Counter(_plain(text) for _, text in broken)
    print(f"\nbroken promises: {len(broken)}")
    for kind, count in kinds.most_common(15):
        where = next(t for t, text in broken if _plain(text) == kind)
        print(f"  {count:6d}  {kind} (as in {where['scenario']}, seed {where['seed']})")
    return not broken


def _plain(text: str) -> str:
    """Without the numbers and names that differ from one to the next."""
    text = text.partition(" (")[0] if text.endswith(")") else text
    words = ["#" if any(c.isdigit() for c in word) else word for word in text.split()]
    short = [word for n, word in enumerate(words) if n == 0 or (word, words[n - 1]) != ("#", "#")]
    return " ".join(short)[:160]
