"""The study of data movement in words, the same on a terminal and on its page."""

from __future__ import annotations

from wattstep.insight.compare.data_movement import NEVER, Study
from wattstep.insight.compare.step_ceilings import HOST, TUNED


def cautions(study: Study) -> list[str]:
    """What a reader must know before the figures."""
    sentences = [
        f"{name} shares memory with the host: a copy is plumbing within one memory, and what it takes says "
        "nothing of a GPU's bus. The same command on a GPU's OpenCL is what counts."
        for name in study.shared
    ]
    if study.disturbed:
        sentences.append(
            f"Other programs disturbed {study.disturbed} of the trainings: their times are not the device's "
            "alone, and none of them counts as faster or slower. Remove their folders on a quiet machine, "
            "and the same command makes them again."
        )
    if study.left:
        sentences.append(
            f"{study.left} trainings of the study are not made yet: the same command goes on with them."
        )
    return sentences


def wins_in_words(study: Study, net: str) -> str:
    """From which batch on each way is faster than the CPU, measured and predicted."""
    if not any(row.net == net for row in study.rows):
        return "not trained yet"
    ways = [way.name for way in study.asked.device_ways]
    measured = ", ".join(f"{way} {_from(study.wins(net, way))}" for way in ways)
    by_ceilings = {way: study.predicted_wins(net, way) for way in ways}
    unknown = [one.reason for one in by_ceilings.values() if one.missing and one.reason != NEVER]
    predicted = (
        f"not known, {unknown[0]}"
        if unknown
        else ", ".join(f"{way} {_from(one.value)}" for way, one in by_ceilings.items())
    )
    return f"faster than the CPU beyond doubt: {measured}; predicted from ceilings: {predicted}"


def _from(batch: float | None) -> str:
    return "at no batch of these" if batch is None else f"from batch {batch:.0f} on"


def products_in_words(study: Study) -> list[str]:
    """What products reach by kept ceilings: the largest square one that both multiplied."""
    sentences = []
    for name, ceilings in study.ceilings.items():
        rows = [
            row
            for row in ceilings.rows("products")
            if row.label.isdigit()
            and all(row.figures.get(each) and row.figures[each].value for each in (TUNED, HOST))
        ]
        if rows:
            row = max(rows, key=lambda row: row.amount)
            ours, cpu = row.figures[TUNED], row.figures[HOST]
            sentences.append(
                f"Products of {row.label} by {row.label} on {name}: tuned {ours}, NumPy on the CPU {cpu}; "
                f"ceilings of {ceilings.created}."
            )
    return sentences
