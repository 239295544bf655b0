"""Writes the tables of results of docs/labeling.md from what benchmarks/labeling.py left with --json.

    python benchmarks/labeling_tables.py docs/labeling.md FILE...

Several files are taken together: seeds, sets and ways that were run one after the other. What stands between a
table's two marks is made anew where the files have its results; all else is kept.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from scipy import stats

# Scores of a way by seed, by set and way.
Results: TypeAlias = dict[str, dict[str, list[dict[str, float]]]]
OURS, FEW, ALL = "ours", "told what is unknown", "told all"
SOON = 1000  # samples after a change
SCORES = (
    ("open auc", "OpenAUC"), ("accuracy", "accuracy on all"), ("known accuracy", "on known classes"),
    ("auroc", "AUROC of unknown"), ("hungarian", "novel classes, Hungarian"),
)  # fmt: skip


def merged(paths: list[Path]) -> dict[str, Any]:
    """All results of the files, seeds side by side."""
    found: dict[str, Any] = {}
    for path in paths:
        for part, of_part in json.loads(path.read_text(encoding="utf-8")).items():
            if part == "speed":
                found[part] = of_part
                continue
            for name, ways in of_part.items():
                into = found.setdefault(part, {}).setdefault(name, {})
                for way, rows in ways.items():
                    into.setdefault(way, []).extend(rows)
    return found


def values(of_set: dict[str, list[dict[str, float]]], way: str, score: str) -> list[float]:
    """Of the seeds that have it: a way whose probabilities were no numbers on a seed has no error there."""
    return [row[score] for row in of_set.get(way, []) if np.isfinite(row.get(score, np.nan))]


def rivals_of(of_set: dict[str, list[dict[str, float]]], score: str) -> list[str]:
    """Ways that are no bound and have the score on every seed."""
    return [
        way
        for way, rows in of_set.items()
        if way not in (OURS, FEW, ALL) and len(values(of_set, way, score)) == len(rows) > 0
    ]


def percent(numbers: list[float], sign: bool = False) -> str:
    """Mean of seeds and half of Student's interval of 95 %, in %; nothing where there is none."""
    if not numbers:
        return ""
    shown = f"{100 * np.mean(numbers):{'+' if sign else ''}.1f}"
    if len(numbers) < 2:
        return shown
    half = stats.t.ppf(0.975, len(numbers) - 1) * np.std(numbers, ddof=1) / np.sqrt(len(numbers))
    return f"{shown} ± {100 * half:.1f}"


def best_rival(
    of_set: dict[str, list[dict[str, float]]], score: str, least: bool = False
) -> str | None:
    """The rival with the best mean, chosen by its result."""
    sign = -1 if least else 1
    return max(
        rivals_of(of_set, score),
        key=lambda way: sign * np.mean(values(of_set, way, score)),
        default=None,
    )


def reached(results: Results) -> list[str]:
    """Ours, what it is above the best rival that was run, and the bounds: a row a set and score."""
    lines = [
        "| score | set | ours | best rival | ours less it | told what is unknown | told all |",
        "|---|---|---|---|---|---|---|",
    ]
    for score, title in SCORES:
        for name, of_set in results.items():
            own = values(of_set, OURS, score)
            if not own:
                continue
            rival = best_rival(of_set, score)
            theirs = [] if rival is None else values(of_set, rival, score)
            margin = percent([a - b for a, b in zip(own, theirs, strict=False)], sign=True)
            few, full = (percent(values(of_set, way, score)) for way in (FEW, ALL))
            shown = "" if rival is None else f"{percent(theirs)}, {rival}"
            lines.append(
                f"| {title} | {name} | {percent(own)} | {shown} | {margin} | {few} | {full} |"
            )
    return lines


def _least_of_rivals(of_set: dict[str, list[dict[str, float]]], score: str) -> str:
    """The least score of a rival, with its name; "" where none has it."""
    rival = best_rival(of_set, score, least=True)
    return "" if rival is None else f"{spread(values(of_set, rival, score))}, {rival}"


def calibration(results: Results) -> list[str]:
    """Where the calibration error comes from, a row a set."""
    lines = [
        "| set | labels | error | of chance | of classes alone | P(known) less share known "
        "| of chance and so few labels | best rival's error | told all |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, of_set in results.items():
        if not values(of_set, OURS, "ece"):
            continue
        rows = of_set[OURS]
        theirs = _least_of_rivals(of_set, "ece")
        cells = [
            name, f"{rows[0]['labels']:.0f}", spread(values(of_set, OURS, "ece")),
            *(f"{np.mean(values(of_set, OURS, score)):.3f}" for score in ("ece of chance", "ece of classes")),
            spread(values(of_set, OURS, "known gap"), sign=True),
            f"{np.mean(values(of_set, OURS, 'ece of labels')):.3f}", theirs,
            spread(values(of_set, ALL, "ece")),
        ]  # fmt: skip
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def brier(results: Results) -> list[str]:
    """Brier scores of labels and of classes, a row a set; the best rival of each by its result."""
    lines = [
        "| set | of labels: ours | best rival | told all | of classes: ours | best rival | told all |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, of_set in results.items():
        if not values(of_set, OURS, "label brier"):
            continue
        cells = [name]
        for score in ("label brier", "brier"):
            ours, full = (spread(values(of_set, way, score)) for way in (OURS, ALL))
            cells += [ours, _least_of_rivals(of_set, score), full]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def chosen(results: Results) -> list[str]:
    """What choosing the best rival by its own result brings it: margins with one chosen on the other seeds beside it."""
    lines = [
        "| score | sets | ours less the best rival, chosen by its result | less the one that was best on the other seeds "
        "| less the one rival that is best over all sets |",
        "|---|---|---|---|---|",
    ]
    for score, title in SCORES:
        sets = {
            name: of_set
            for name, of_set in results.items()
            if values(of_set, OURS, score) and rivals_of(of_set, score)
        }
        if not sets:
            continue
        margins = [
            np.mean(values(each, OURS, score)) - np.array([_by_result(each, score), _by_others(each, score)])
            for each in sets.values()
        ]  # fmt: skip
        own, others = 100 * np.mean(margins, axis=0)
        one = ""
        common = set.intersection(*(set(rivals_of(each, score)) for each in sets.values()))
        if common:
            mean = {
                way: np.mean([np.mean(values(each, way, score)) for each in sets.values()])
                for way in common
            }
            best = max(sorted(mean), key=lambda way: mean[way])
            ours = np.mean([np.mean(values(each, OURS, score)) for each in sets.values()])
            one = f"{100 * (ours - mean[best]):+.1f}, {best}"
        lines.append(f"| {title} | {len(sets)} | {own:+.1f} | {others:+.1f} | {one} |")
    return lines


def _by_result(of_set: dict[str, list[dict[str, float]]], score: str) -> float:
    return max(float(np.mean(values(of_set, way, score))) for way in rivals_of(of_set, score))


def _by_others(of_set: dict[str, list[dict[str, float]]], score: str) -> float:
    """Mean over seeds of the rival with the best mean on the others."""
    table = np.array([values(of_set, way, score) for way in rivals_of(of_set, score)])
    if table.shape[1] < 2:
        return float("nan")
    rest = table.sum(axis=1, keepdims=True) - table
    return float(table[rest.argmax(axis=0), np.arange(table.shape[1])].mean())


def novel(results: Results) -> list[str]:
    """Novel classes of ours and of the best rival beside what each calls unknown: a row a set and way."""
    lines = [
        "| set | way | novel classes, Hungarian | known ones called unknown | unknown ones called so "
        "| with 5 % of known ones called unknown |",
        "|---|---|---|---|---|---|",
    ]
    scores = ("hungarian", "false alarms", "caught", "caught at rate")
    for name, of_set in results.items():
        rival = best_rival(of_set, "hungarian")
        for way in (OURS, rival, FEW):
            if way is not None and values(of_set, way, "auroc"):
                cells = [percent(values(of_set, way, score)) for score in scores]
                lines.append(f"| {name} | {way} | {' | '.join(cells)} |")
    return lines


def spread(numbers: list[float], sign: bool = False) -> str:
    """Mean of seeds and the range from least to most."""
    if not numbers:
        return ""
    plus = "+" if sign else ""
    return f"{np.mean(numbers):{plus}.3f} ({min(numbers):{plus}.3f} to {max(numbers):{plus}.3f})"


def drift(results: Results) -> list[str]:
    lines = [
        "| stream | way | accuracy before, % | first 500 after | from 1,000 on | back within 2 points "
        "| by 1,000 samples | after samples |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, of_stream in results.items():
        for way, rows in of_stream.items():
            cells = [
                percent(values(of_stream, way, score))
                for score in ("before", "first 500 after", "from 1,000 on")
            ]
            back = values(of_stream, way, "back")
            after = values(of_stream, way, "back after")
            shown = f"{min(after):,.0f} to {max(after):,.0f}" if after else ""
            soon = sum(each <= SOON for each in after)
            lines.append(
                f"| {name} | {way} | {' | '.join(cells)} | {sum(back):.0f} of {len(rows)} seeds | {soon} | {shown} |"
            )
    ways = dict.fromkeys(way for of_stream in results.values() for way in of_stream)
    for way in ways:
        after = [
            each for of_stream in results.values() for each in values(of_stream, way, "back after")
        ]
        draws = sum(len(of_stream.get(way, [])) for of_stream in results.values())
        soon = sum(each <= SOON for each in after)
        lines.append(f"| all | {way} | | | | {len(after)} of {draws} seeds | {soon} | |")
    return lines


def asking(results: Results) -> list[str]:
    """What answers to questions bring beside labels of as many samples drawn at random: a row a set."""
    none, drawn, asked = "no further labels", "random", "asked"
    lines = []
    for score in ("known accuracy", "accuracy"):
        for name, ways in results.items():
            of_way = {way: values(ways, way, score) for way in (none, drawn, asked)}
            margin = [a - b for a, b in zip(of_way[asked], of_way[drawn], strict=True)]
            cells = [*map(percent, of_way.values()), percent(margin, sign=True)]
            where = "on known classes" if score == "known accuracy" else "on all"
            lines.append(f"| {where} | {name} | {' | '.join(cells)} |")
    return [
        "| accuracy | set | no further labels | 40 drawn at random | 40 asked for | asked less random |",
        "|---|---|---|---|---|---|", *lines,
    ]  # fmt: skip


def speed(results: dict[str, float]) -> list[str]:
    return ["| what | here |", "|---|---|", *(f"| {name} | {value:,.0f} |" for name, value in results.items())]  # fmt: skip


def without_empty(lines: list[str]) -> list[str]:
    """The table without columns that no row has: of ways that the files do not hold."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    kept = [at for at in range(len(rows[0])) if any(row[at] for row in rows[2:])]
    return ["| " + " | ".join(row[at] for at in kept) + " |" for row in rows]


TABLES: dict[str, tuple[tuple[str, Any], ...]] = {
    "inductive": (
        ("reached", reached),
        ("chosen", chosen),
        ("calibration", calibration),
        ("brier", brier),
        ("novel", novel),
    ),
    "prequential": (("drift", drift),),
    "asking": (("asking", asking),),
    "speed": (("speed", speed),),
}


def main() -> None:
    page = Path(sys.argv[1])
    text = page.read_text(encoding="utf-8")
    for part, results in merged([Path(name) for name in sys.argv[2:]]).items():
        for name, table in TABLES[part]:
            begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->\n"
            if begin not in text:
                print(f"{page} has no mark for {name}:", *without_empty(table(results)), sep="\n")
                continue
            before, rest = text.split(begin)
            text = (
                before
                + begin
                + "\n".join(["", *without_empty(table(results)), ""])
                + "\n"
                + end
                + rest.split(end)[1]
            )
    page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
