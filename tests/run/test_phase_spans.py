"""How long phases last by their marks, and to which update they belong."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from wattstep.attribution.tables.phase_spans import PhaseSpans, phase_spans
from wattstep.schema.figure import Status
from wattstep.schema.journal import Mark

MS = 1_000_000


def spans(*steps: list[tuple[float, str]], length: float = 10.0) -> PhaseSpans | None:
    """Of steps one after another, each of (time in ms, phase) or of (time, "=update")."""
    marks = [
        (n, int((n * length + at) * MS), Mark.UPDATE if name[0] == "=" else Mark.PHASE, name)
        for n, step in enumerate(steps)
        for at, name in step
    ]
    count = len(steps)
    start = (np.arange(count) * length * MS).astype(np.int64)
    whole: Any = SimpleNamespace(
        status=Status.MEASURED, start_ns=start, end_ns=start + int(length * MS)
    )
    columns: Any = SimpleNamespace(
        step=np.array([m[0] for m in marks], np.int64),
        t_ns=np.array([m[1] for m in marks], np.int64),
        kind=np.array([m[2] for m in marks], np.int64),
        name=np.array([m[3].lstrip("=") for m in marks], dtype=object),
    )
    return phase_spans(columns, whole, np.arange(count), length * 1e-3)


def told(found: PhaseSpans | None) -> dict[tuple[str, str], float]:
    """Milliseconds by update and phase."""
    assert found is not None
    return {
        (row.labels["update"], row.phase): round(row.figure("span").value * 1e3, 6)
        for row in found.rows()
    }


GAN = [
    (0.1, "loop"), (1, "forward"), (3, "backward"), (5, "optimizer"), (6, "=judge"),
    (6, "forward"), (7, "backward"), (8, "optimizer"), (10, "=maker"),
]  # fmt: skip


def test_phases_belong_to_the_update_that_they_lead_to() -> None:
    assert told(spans(GAN, GAN)) == {
        ("judge", "loop"): 1, ("judge", "forward"): 2, ("judge", "backward"): 2,
        ("judge", "optimizer"): 1, ("maker", "forward"): 1, ("maker", "backward"): 1,
        ("maker", "optimizer"): 2,
    }  # fmt: skip


def test_a_phase_is_the_sum_of_all_updates() -> None:
    found = spans(GAN, GAN)
    assert found is not None
    figure = found.of_phase("forward")
    assert figure is not None
    assert figure.value == pytest.approx(3e-3)
    assert figure.status.value == "measured"
    assert found.of_phase("data") is None


def test_steps_of_different_kinds_are_a_mean_of_both_that_makes_the_step() -> None:
    plain = [(0, "forward"), (4, "backward"), (9, "optimizer"), (10, "=judge")]
    found = told(spans(GAN, plain))
    assert found["judge", "forward"] == pytest.approx((2 + 4) / 2)
    assert found["maker", "optimizer"] == pytest.approx(2 / 2)
    assert sum(found.values()) == pytest.approx(10)


def test_an_update_that_comes_in_some_steps_only_is_counted_so() -> None:
    plain = [(0, "forward"), (4, "backward"), (9, "optimizer"), (10, "=judge")]
    found = spans(GAN, plain)
    assert found is not None
    counts = {row.labels["update"]: row.figure("count").value for row in found.rows()}
    assert counts == {"judge": 1.0, "maker": 0.5}


def test_what_follows_the_last_update_belongs_to_it() -> None:
    found = told(spans([(0, "forward"), (2, "optimizer"), (5, "=net"), (5, "loop")]))
    assert found == {("net", "forward"): 2, ("net", "optimizer"): 3, ("net", "loop"): 5}


def test_runs_that_mark_no_updates_number_them_by_the_phase_of_the_optimizer() -> None:
    unmarked = [(at, name) for at, name in GAN if name[0] != "="]
    assert {update for update, _ in told(spans(unmarked, unmarked))} == {"1", "2"}
    one = [(0, "forward"), (4, "backward"), (9, "optimizer"), (9.5, "loop")]
    assert {update for update, _ in told(spans(one))} == {""}


def test_steps_without_marks_tell_nothing() -> None:
    assert spans([], []) is None
