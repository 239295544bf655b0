"""A comparison as one HTML page: the answer first, then the figures, as `wattstep compare` has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from markupsafe import Markup

from wattstep.insight.compare.answer import signed_change
from wattstep.insight.compare.comparing import Comparison
from wattstep.insight.compare.drift import Drift
from wattstep.insight.compare.matrix import Cell, Matrix
from wattstep.insight.compare.metrics import Verdict
from wattstep.insight.compare.operations import ComparedOperations
from wattstep.insight.compare.sides import Side
from wattstep.report.html.page import Plots, code_of, own_file, template
from wattstep.report.values import BYTES_NOTE, NO_VALUE, Shown, plain, show
from wattstep.report.wording import begun, metric
from wattstep.schema.figure import Figure

MOST_ROWS: Final = 200  # of operations; --json has them all
MOST_ALONE: Final = 12
_WORDS: Final[Mapping[Verdict, str]] = {
    "lower": "less",
    "higher": "more",
    "differs here": "differs in these runs",
    "not shown": "not shown",
    "not compared": "not compared",
}
_NOTE: Final = (
    "* differs: at most 5 % of all pairs so marked by false discovery. In brackets: one run of each; "
    "how runs differ is not in the interval, and nothing is marked."
)


def render_comparison(comparison: Comparison) -> str:
    """Two sides as the text of an HTML page."""
    metrics = [
        {
            "label": metric(name).label,
            "a": _shown(compared.a),
            "b": _shown(compared.b),
            "change": signed_change(compared.ratio),
            "reason": plain(compared.ratio.reason or "") if compared.ratio.missing else "",
            "detail": plain(compared.ratio.method or ""),
            "verdict": _WORDS[compared.verdict],
        }
        for name, compared in comparison.metrics.items()
    ]
    sentences = [plain(sentence) for sentence in comparison.sentences]
    return _render(
        title=" and ".join(plain(side.name) for side in comparison.sides),
        sides=_sides(comparison.sides),
        sentences=sentences,
        warnings=[begun(plain(warning)) for warning in comparison.warnings],
        metrics=metrics,
        reasons=_reasons(metrics, sentences),
        operations=_operations(comparison.operations),
        drift=_drift(comparison.drift),
        matrix=None,
    )


def render_matrix(matrix: Matrix) -> str:
    """Every pair of some sides as the text of an HTML page."""
    cells = {(cell.a, cell.b): cell for cell in matrix.cells}
    letters = [side.letter for side in matrix.sides]
    square = [(row, [_of_pair(cells, column, row) for column in letters]) for row in letters]
    name = metric(matrix.metric).label
    return _render(
        title=f"{len(letters)} sides",
        sides=_sides(matrix.sides),
        sentences=[],
        warnings=[begun(plain(warning)) for warning in matrix.warnings],
        metrics=[],
        reasons={},
        operations=None,
        drift="",
        matrix={
            "name": name,
            "values": [(_title(s), _shown(matrix.figures[s.letter])) for s in matrix.sides],
            "letters": letters,
            "rows": square,
            "notes": [_NOTE, *(f"{NO_VALUE} {plain(reason)}" for reason in matrix.not_compared)],
        },
    )


def _reasons(
    metrics: Sequence[Mapping[str, Any]], sentences: Sequence[str]
) -> dict[str, list[str]]:
    """Labels of what is not compared, by the reason; those that a sentence has are not said again."""
    reasons: dict[str, list[str]] = {}
    for row in metrics:
        if row["reason"] and not any(row["reason"] in sentence for sentence in sentences):
            reasons.setdefault(row["reason"], []).append(row["label"])
    return reasons


def _render(**parts: Any) -> str:
    return template("compare.html").render(
        **parts,
        bytes_note=BYTES_NOTE,
        style=Markup(own_file("report.css")),
        code=code_of(Plots()),
    )


def _shown(figure: Figure) -> Shown:
    return show(figure)


def _title(side: Side) -> str:
    return plain(side.name)


def _sides(sides: Sequence[Side]) -> list[tuple[str, list[str]]]:
    return [(_title(side), [plain(path.name) for path in side.paths]) for side in sides]


def _operations(operations: ComparedOperations) -> dict[str, Any] | None:
    """Those that differ first, then the others; None where there is nothing to show."""
    if operations.reason is not None or not (
        operations.rows or operations.only_a or operations.only_b
    ):
        return None
    differing = operations.differing("time")
    chosen = {id(row) for row in differing}
    rows = [*differing, *(row for row in operations.rows if id(row) not in chosen)]
    shown = [
        {
            **{key: plain(text) for key, text in row.key.items()},
            "work": plain(row.work),
            "a": _shown(row.quantities["time"].a),
            "b": _shown(row.quantities["time"].b),
            "ratio": row.quantities["time"].ratio.value,
            "change": signed_change(row.quantities["time"].ratio) or NO_VALUE,
            "energy": signed_change(row.quantities["energy"].ratio, brief=True) or NO_VALUE,
            "differs": id(row) in chosen,
        }
        for row in rows[:MOST_ROWS]
    ]
    return {
        "rows": shown,
        "differing": len(differing),
        "energy": any(row["energy"] != NO_VALUE for row in shown),
        "work": any(row["work"] for row in shown),
        "left": len(rows) - len(shown),
        "alone": [
            (letter, [plain(f"{one.key['name']} in {one.key['layer']}") for one in alone[:MOST_ALONE]], len(alone))
            for letter, alone in (("A", operations.only_a), ("B", operations.only_b))
            if alone
        ],
    }  # fmt: skip


def _drift(drift: Drift) -> str:
    if drift.reason is not None:
        return plain(f"Whether the machine changed is not known: {drift.reason}.")
    parts = [f"{name} {signed_change(figure) or NO_VALUE}" for name, figure in drift.parts.items()]
    return plain(f"Canary, B against A: {', '.join(parts)}.")


def _of_pair(cells: Mapping[tuple[str, str], Cell], a: str, b: str) -> tuple[str, bool]:
    """B against A as words, and whether they differ; "" on the diagonal."""
    if (cell := cells.get((a, b))) is not None:
        return _cell(cell, inverse=False)
    if (cell := cells.get((b, a))) is not None:
        return _cell(cell, inverse=True)
    return "", False


def _cell(cell: Cell, *, inverse: bool) -> tuple[str, bool]:
    if cell.compared is None or cell.compared.ratio.value is None:
        return NO_VALUE, False
    ratio = cell.compared.ratio
    words = signed_change(inverted(ratio) if inverse else ratio)
    if cell.compared.plan is None:
        return f"({words})", False
    differs = cell.verdict in ("lower", "higher")
    return f"{words}{'*' if differs else ''}", differs


def inverted(ratio: Figure) -> Figure:
    """A against B from B against A."""
    ends = (ratio.low, ratio.high)
    low, high = (1 / end if end else None for end in reversed(ends))
    return replace(ratio, value=1 / ratio.value if ratio.value else None, low=low, high=high)
